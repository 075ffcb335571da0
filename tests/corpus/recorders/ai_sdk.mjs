// Records `ai_harbour.json` (telemetry spans) and `ui_tide.json` (UI messages) with the AI SDK and a model of its own
// test kit. npm install ai@5 zod @opentelemetry/api @opentelemetry/sdk-trace-base @opentelemetry/context-async-hooks
// Stack traces are taken out before the files are kept.
import fs from 'node:fs';
import { context } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { generateText, readUIMessageStream, stepCountIs, streamText, tool } from 'ai';
import { MockLanguageModelV2, simulateReadableStream } from 'ai/test';
import { z } from 'zod';

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
const exporter = new InMemorySpanExporter();
const tracer = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).getTracer('ai');
const usage = { inputTokens: 10, outputTokens: 5, totalTokens: 15 };
const call = (id, port, day) => ({
  type: 'tool-call', toolCallId: id, toolName: 'tide', input: JSON.stringify({ port, day }),
});
const tide = tool({
  description: 'tide',
  inputSchema: z.object({ port: z.string(), day: z.string() }),
  execute: async ({ port }) => {
    if (port === 'Nowhere') throw new Error('unknown port');
    return { high: '06:12', port };
  },
});

const answers = [
  { finishReason: 'tool-calls', content: [
    { type: 'reasoning', text: 'The tide table is needed.' },
    { type: 'text', text: 'Let me look up the tide.' },
    call('c1', 'Brest', 'Friday'), call('c2', 'Nowhere', 'Friday'),
  ] },
  { finishReason: 'stop', content: [
    { type: 'text', text: 'High water in Brest is at 06:12; Nowhere is not a port.' },
  ] },
];
await generateText({
  model: new MockLanguageModelV2({
    modelId: 'mock', doGenerate: async () => ({ usage, warnings: [], ...answers.shift() }),
  }),
  tools: { tide }, stopWhen: stepCountIs(4), system: 'You are the harbour desk.',
  messages: [{ role: 'user', content: 'When is high water in Brest and in Nowhere?' }],
  experimental_telemetry: { isEnabled: true, tracer, functionId: 'harbour' },
});
const plain = (s) => ({
  name: s.name, spanContext: s.spanContext(), parentSpanContext: s.parentSpanContext, attributes: s.attributes,
  status: s.status, startTime: s.startTime, endTime: s.endTime, events: s.events,
});
fs.writeFileSync('ai_harbour.json', JSON.stringify(exporter.getFinishedSpans().map(plain), null, 1));

const text = (id, ...deltas) => [
  { type: 'text-start', id }, ...deltas.map((delta) => ({ type: 'text-delta', id, delta })), { type: 'text-end', id },
];
const streams = [
  [
    { type: 'reasoning-start', id: 'r' }, { type: 'reasoning-delta', id: 'r', delta: 'A table again.' },
    { type: 'reasoning-end', id: 'r' }, ...text('t', 'One moment, ', 'the table.'),
    { type: 'source', sourceType: 'url', id: 's', url: 'https://example.org/tides', title: 'Tide tables' },
    call('c3', 'Brest', 'Saturday'), call('c4', 'Nowhere', 'Saturday'),
    { type: 'finish', finishReason: 'tool-calls', usage },
  ],
  [...text('t2', 'At 06:58 on Saturday.'), { type: 'finish', finishReason: 'stop', usage }],
];
const asked = { type: 'text', text: 'And on Saturday?' };
const chart = { type: 'file', mediaType: 'image/png', filename: 'chart.png', url: 'data:image/png;base64,iVBORw0KGgo=' };
const streamed = streamText({
  model: new MockLanguageModelV2({
    modelId: 'mock',
    doStream: async () => ({
      stream: simulateReadableStream({ chunks: [{ type: 'stream-start', warnings: [] }, ...streams.shift()] }),
    }),
  }),
  tools: { tide }, stopWhen: stepCountIs(4), messages: [{ role: 'user', content: asked.text }],
});
let last;
const stream = streamed.toUIMessageStream({ sendReasoning: true, sendSources: true });
for await (const message of readUIMessageStream({ stream })) last = message;
const user = { id: 'u1', role: 'user', parts: [asked, chart] };
fs.writeFileSync('ui_tide.json', JSON.stringify({ id: 'chat-tide', messages: [user, last] }, null, 1));
