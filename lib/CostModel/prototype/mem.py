from p3 import *
import collections
def memory(r):
    o=parse(r);L=o.layers;h=o.hidden;tp=o.tp
    M=o.mbs*o.seq_len/o.cp; sp=tp if o.sp else 1
    by=o.bits/8
    q=o.heads*o.hd/tp;kv=o.kv*o.hd/tp
    gated=not o.gelu
    # saved per layer (graph): 2 norm inputs (2B) /sp, 2 norm outputs (factor) /sp, q,k,v,out (out is factor), act in
    s=M*h*(2*2+2*by)/sp+M*(q+2*kv)*2+M*q*by
    if gated: s+=M*o.ffn/tp*(2+2+by)   # gate, up, product
    else: s+=M*o.ffn/tp*(2+by)
    if o.flash is None and not(o.rec.startswith('selective') and 'Reducing' in o.r['source']): s+=5*(o.heads/tp)*M*o.seq_len
    kept=M*h/(sp)
    rec=o.rec
    if rec.startswith('full'): s=2*kept
    elif 'op' in rec: s=.6*s
    elif 'layer' in rec or 'every 2nd' in rec: s=(s+2*kept)/2
    elif rec.startswith('selective') and 'FSDP' in o.fw: s=(2*s+2*kept)/3
    pl=params_layer(o,False)[0]/tp; emb=o.vocab*h/tp
    g=4
    src=r['source']
    if src.startswith('BigScience') or 'BLOOM' in src: g=4 if 'fp32' in r['precision'] else 2
    if 'InternEvo' in src or 'llm.c' in src: g=2
    logits=6*M*o.vocab/tp
    n=o.dp*o.cp
    if o.fsdp:
        P=L*pl+2*emb
        st=P*(2+g+12)/n + max(pl,emb)*8
        return st+L*s+logits
    own=n if (o.zero1 or r['zero']=='') else 1
    if o.pp==1: return (L*pl+2*emb)*(2+g+12/own)+L*s+logits
    best=0
    v=o.vp or 1;p=o.pp;S=p*v
    each=L/S if L%S==0 else (L+2)/S
    acc=o.gbs//(o.dp*o.mbs)
    for i in range(p):
        nl=0
        for k in range(v):
            st_=i+k*p
            nl+=each-((st_ in(0,S-1)) if L%S else 0)
        P=nl*pl+(emb if i==0 or i==p-1 else 0)
        fl=min(acc,p-i) if v==1 else (2*(p-i-1)+(v-1)*p+1)/v
        if 'ZB-2p' in o.fw: fl=min(2*p-1,acc)
        m=P*(2+g+12/own)+nl*s*fl+(logits if i==p-1 else 0)
        best=max(best,m)
    return best
res=collections.defaultdict(list)
R=list(csv.DictReader(open(V+'steps.csv')))
for r in R:
    if not r['mem_gb'] or r['moe_experts'] or spec(r): continue
    b=memory(r);note=r['mem_note']
    if 'nvidia-smi' in note or 'first/last' in note: b=b*1.05+2.5e9
    elif 'max over' in note: b=b*1.05+1e9
    elif 'peak' not in note: continue
    e=b/(float(r['mem_gb'])*2**30)-1
    res[r['source']].append((e,r))
tot=[]
for s,x in res.items():
    c=collections.Counter(r['group'] for _,r in x)
    es=[(e,1/c[r['group']]) for e,r in x];tot+=es
    print('%-36s %3d %s'%(s,len(x),stat(es)))
    seen=set()
    for e,r in sorted(x,key=lambda z:z[0]):
        k=(r['model'],r['tp'],r['pp'],r['mbs'],r['framework'],r['recompute'])
        if k in seen: continue
        seen.add(k)
        if len(sys.argv)>1: print('   %+5.1f'%(100*e),r['model'],'L',r['layers'],'h',r['hidden'],'tp',r['tp'],'pp',r['pp'],'vp',r['vp'],'dp',r['dp'],'cp',r['cp'],'mbs',r['mbs'],'s',r['seq_len'],r['mem_gb'],r['framework'][:40],r['recompute'],r['gpu'][:8])
print('all',len(tot),stat(tot))
