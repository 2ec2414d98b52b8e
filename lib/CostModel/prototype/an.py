import json,csv,collections,sys
d=json.load(open(sys.argv[1]));
def f(e): return '%d rows %d groups  %.1f/%.1f/%.1f bias %+.1f worst %s %+.0f'%(e['rows'],e['groups'],100*e['median_abs'],100*e['p90_abs'],100*e['mean_abs'],100*e['bias'],e['worst'],100*e['worst_error'])
print('time',f(d['overall']['time']));print('mem',f(d['overall']['memory']));print('dense',f(d['dense']['time']));print('moe',f(d['experts']['time']))
S=d['sources'];m=[s['time']['median_abs'] for s in S.values() if s['time']['rows']];print('mean source median %.1f'%(100*sum(m)/len(m)))
for k,s in S.items():
    if s['time']['rows']: print('%-44s'%k,f(s['time']))
for k,s in S.items():
    if s['memory']['rows']: print('MEM %-40s'%k,f(s['memory']))
if 'rows' in d and d['table']=='steps':
    R={r['id']:r for r in csv.DictReader(open('/work/shared/validation/steps.csv'))}
    sw=collections.defaultdict(lambda:collections.defaultdict(list))
    for r in d['rows']:
        c=R[r['id']]
        k=tuple(c[x] for x in('source','model','gpu','gpus','seq_len','precision','layers','hidden','gbs'))
        plan=tuple(c[x] for x in('tp','pp','vp','cp','ep','dp','mbs','recompute','zero','sp','framework' if 'Zero' in c['source'] else 'task'))
        sw[k][plan].append((r['predicted_time'],r['time']))
    ok=n=0;reg=[]
    for k,p in sw.items():
        pts=[(sum(a for a,_ in v)/len(v),sum(b for _,b in v)/len(v)) for v in p.values()]
        if len(pts)<3: continue
        best=min(b for _,b in pts);ch=min(pts)[1];reg.append(ch/best-1)
        for i in range(len(pts)):
            for j in range(i):
                a,b=pts[i],pts[j]
                if abs(a[1]/b[1]-1)>.05: n+=1;ok+=((a[0]-b[0])*(a[1]-b[1])>0)
    reg.sort();print('pairs %d right %.0f%%; sweeps %d regret med %.1f p90 %.1f'%(n,100*ok/max(1,n),len(reg),100*reg[len(reg)//2],100*reg[int(.9*(len(reg)-1))]))
