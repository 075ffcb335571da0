// Records conversations/pi_seeds.jsonl with pi's own session manager: npm i @mariozechner/pi-coding-agent
import { SessionManager } from '@mariozechner/pi-coding-agent';
const s = SessionManager.create('/garden','sessions');
const u={input:1,output:1,cacheRead:0,cacheWrite:0,totalTokens:2,cost:{input:0,output:0,cacheRead:0,cacheWrite:0,total:0}};
const a=(content,stopReason='stop',extra={})=>({role:'assistant',content,api:'openai-completions',provider:'p',model:'m',usage:u,stopReason,timestamp:Date.now(),...extra});
s.appendMessage({role:'user',content:'Which seeds are left?',timestamp:1});
const at=s.appendMessage(a([{type:'thinking',thinking:'look in the tin'},{type:'text',text:'Looking in the tin.'},{type:'toolCall',id:'t1',name:'read',arguments:{path:'tin.txt'}},{type:'toolCall',id:'t2',name:'read',arguments:{path:'box.txt'}}],'toolUse'));
s.appendMessage({role:'toolResult',toolCallId:'t1',toolName:'read',content:[{type:'text',text:'peas, 40'}],isError:false,timestamp:2});
const b=s.appendMessage({role:'toolResult',toolCallId:'t2',toolName:'read',content:[{type:'text',text:'no such file'}],isError:true,timestamp:3});
s.appendMessage(a([{type:'text',text:'Only beans, I think.'}]));
s.appendMessage({role:'user',content:'No, look again.',timestamp:4});
s.branchWithSummary(b,'The first answer was about beans.');
s.appendMessage(a([{type:'text',text:'Forty peas, no beans.'}]));
s.appendMessage({role:'bashExecution',command:'wc -l tin.txt',output:'1 tin.txt',exitCode:0,cancelled:false,truncated:false,timestamp:5});
s.appendCustomMessageEntry('reminder','Water at six.',true);
s.appendMessage({role:'user',content:[{type:'text',text:'Draw them.'},{type:'image',data:'QUJDREVG',mimeType:'image/png'}],timestamp:6});
s.appendMessage(a([{type:'text',text:'A pea'}],'aborted',{errorMessage:'Request was aborted'}));
console.log(s.getSessionFile());
