import csv,json,math,collections,glob
V='/work/shared/validation/'
D={}
for f in glob.glob('/work/wt/cost/share/hardware/*.json'):
    d=json.load(open(f));D[d['name']]=d
N={'A100':'a100-sxm-80gb','H100':'h100-sxm-80gb','H200':'h200-sxm-141gb','B200':'b200-sxm-180gb','B300':'b300-sxm-270gb','GB200':'gb200-186gb','GB300':'gb300-277gb','MI300X':'mi300x-192gb'}
def wq(xs,q):
    xs=sorted(xs);return xs[min(len(xs)-1,int(math.ceil(q*len(xs)))-1)] if xs else 0
def prod(d,m,n,k,w,cast=True):
    p=d['product'];key={16:'bf16',8:'fp8',4:'fp4'}[w]
    P=p['rate'].get(key) or p['rate']['bf16'];dep=p['depth'].get(key,0)
    best=9e9
    for a,b,s in p['tiles']:
        t=math.ceil(m/a)*math.ceil(n/b);g=math.ceil(t/p['units'])*p['units']*a*b
        best=min(best,(g/(m*n))**.35/s)
    bw=d['memory']['bandwidth']
    t=p['start']+max(2*m*n*k*best*(1+dep/k)/P,(w/8*k*(m+n)+2*m*n)/(.8*bw))
    if w<16 and cast:t+=6e-6+m*k*(2+w/8)/(.85*bw)
    return t
E=collections.defaultdict(list)
for r in csv.DictReader(open(V+'kernels.csv')):
    if r['kind']!='gemm' or r['gpu_class'] not in N: continue
    dt=r['dtype'];w=4 if 'fp4' in dt else 8 if 'fp8' in dt or 'e4m3' in dt else 16 if '16' in dt else 0
    if not w: continue
    m,n,k=float(r['m']),float(r['n']),float(r['k'])
    t=float(r['time_us'])*1e-6 if r['time_us'] else 2*m*n*k/(float(r['tflops'])*1e12)
    E[r['source'][:22],r['gpu_class'],dt].append((prod(D[N[r['gpu_class']]],m,n,k,w)/t-1,m,n,k))
for k,v in sorted(E.items()):
    a=[abs(x[0]) for x in v]; print(k,len(v),'med %.1f p90 %.1f bias %+.1f'%(100*wq(a,.5),100*wq(a,.9),100*sum(x[0] for x in v)/len(v)))
def coll(d,kind,n,s):
    l=d['link'];tw=2 if kind=='all_reduce' else 1
    sh=.69 if kind=='alltoall' else (l['in_switch'] if n>=6 else 1)
    if n==2: sh*=l['pair']
    x=s*tw*(n-1)/n/(l['bandwidth']*sh)
    return l['start']+l['hop']*(n-1)*tw+x+math.sqrt(x*l['ramp'])
E=collections.defaultdict(list)
for r in csv.DictReader(open(V+'collectives.csv')):
    if r['gpu_class'] not in N or not r['time_us'] or float(r['size_bytes'])<1<<20 or int(r['nodes'] or 1)>1: continue
    if r['collective'] not in('all_reduce','all_gather','reduce_scatter','alltoall'): continue
    n=int(r['gpus']);
    E[r['gpu_class'],r['collective'],n].append(coll(D[N[r['gpu_class']]],r['collective'],n,float(r['size_bytes']))/(float(r['time_us'])*1e-6)-1)
    E[r['gpu_class'],'ALL',0].append(E[r['gpu_class'],r['collective'],n][-1])
for k,v in sorted(E.items()):
    a=[abs(x) for x in v]; print(k,len(v),'med %.1f p90 %.1f bias %+.1f'%(100*wq(a,.5),100*wq(a,.9),100*sum(v)/len(v)))
