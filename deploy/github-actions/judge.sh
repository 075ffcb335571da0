#!/bin/sh
# The last step of a job, after the agent's: judges one conversation in the foreground (what a step leaves
# behind is killed with it), writes the job's summary, and fails the job where it was asked to.
#
#   CONVERSATION    the transcript, in any format that the project reads
#   FAIL_ON         fail, null or any; empty: the job goes on whatever the verdicts
#   everything else as SANDBOX_JUDGE_* (docs/hook-input.md); arguments are those of `sandbox-judge run`
set -u
python=${SANDBOX_JUDGE_PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
events=${JUDGEMENTS:-$folder/judgements.jsonl}
if [ ! -s "${CONVERSATION:-}" ]; then
  echo "judge: there is no conversation at '${CONVERSATION:-}': the agent said nothing, or wrote it elsewhere" >&2
  exit 0
fi
# A cancelled job has 7.5 s from the first signal: nulls are emitted within them.
"$python" -I -m sandbox_judge run "$CONVERSATION" --sink "file:$events" --budget "${BUDGET:-5m}" \
  ${FAIL_ON:+--fail-on "$FAIL_ON"} "$@"
code=$?
if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$events" ]; then
  "$python" -I -m sandbox_judge hooks summary "$events" >>"$GITHUB_STEP_SUMMARY"
fi
[ -n "${FAIL_ON:-}" ] && exit "$code"
exit 0
