import csv,math,sys,collections,re
V='/work/shared/validation/'
us=1e-6
# device: P bf16, P fp8, P fp4, BW, SMs, tiles, k0, t0, clock, nic, a,hop,B,ramp, nvls
DEV={
'A100':dict(P={16:266e12},BW=2039e9,sm=108,t0=7.6*us,clk=.93,nic=25e9,a=7.6*us,hop=1.0*us,B=228e9,ramp=33*us,nvls=1,n2=1,fa={'fa1':(95,95),'fa2':(204,204),'fa3':(204,204)},mem=80e9),
'H100':dict(P={16:800e12,8:1500e12},BW=3350e9,sm=132,t0=5.3*us,clk=.85,nic=50e9,a=4.2*us,hop=.9*us,B=350e9,ramp=12*us,nvls=1.37,n2=.9,fa={'fa1':(140,140),'fa2':(370,330),'fa3':(640,550)},mem=80e9),
'H200':dict(P={16:812e12,8:1500e12},BW=4800e9,sm=132,t0=5.3*us,clk=.85,nic=50e9,a=4.2*us,hop=.9*us,B=350e9,ramp=12*us,nvls=1.37,n2=.9,fa={'fa2':(370,330),'fa3':(700,620)},mem=141e9),
'B200':dict(P={16:1650e12,8:3150e12,4:5400e12},BW=8000e9,sm=148,t0=5*us,clk=.85,nic=50e9,a=7.3*us,hop=1.25*us,B=700e9,ramp=20*us,nvls=1.1,n2=.85,fa={'fa2':(425,380),'fa3':(1700,1150)},mem=180e9),
'B300':dict(P={16:1769e12,8:3353e12,4:8100e12},BW=8000e9,sm=148,t0=5*us,clk=.87,nic=100e9,a=7.3*us,hop=1.25*us,B=700e9,ramp=20*us,nvls=1.1,n2=.85,fa={'fa2':(425,380),'fa3':(1700,1150)},mem=270e9),
'GB200':dict(P={16:1750e12,8:3300e12,4:5500e12},BW=8000e9,sm=152,t0=5*us,clk=.85,nic=50e9,a=8*us,hop=1.25*us,B=620e9,ramp=10*us,nvls=1,n2=.85,fa={'fa2':(425,380),'fa3':(1700,1150),'win':(165,155)},mem=186e9),
'GB300':dict(P={16:2040e12,8:3850e12,4:8600e12},BW=8000e9,sm=152,t0=5*us,clk=.87,nic=100e9,a=8*us,hop=1.25*us,B=620e9,ramp=10*us,nvls=1,n2=.85,fa={'fa2':(425,380),'fa3':(1990,1340),'win':(170,165)},mem=277e9),
'MI300X':dict(P={16:700e12,8:1250e12},BW=5300e9,sm=304,t0=8*us,clk=.85,nic=50e9,a=10*us,hop=1.5*us,B=310e9,ramp=30*us,nvls=1,n2=1,fa={'fa2':(400,330),'fa3':(500,400)},mem=192e9),
}
C=dict(mb_f=1.2,mb_e=2.2,q8=2.0,gamma=.15,tp_hid=.55,dp_hid=.80,nic=.75,scale=.010,a2a=.55,me0=300,moe_mb=1.2,h_mega=5*us,h_eager=7*us,fix=20e-3,clk8=1.0,b=.35,k0={16:100,8:250,4:250},nicx=.85)
def F(x,d=0.):
    try:return float(x)
    except: return d
class Row: pass
def nic_of(r,D):
    t=r['interconnect']; 
    if 'Omni-Path' in t or '4x100Gb' in t: return 6.25e9
    if t=='400Gbps': return 6.25e9
    if t=='800Gbps': return 12.5e9
    return D['nic']
def parse(r):
    o=Row(); g=lambda k,d=0:int(F(r[k],d))
    o.r=r
    for k in ('layers','hidden','heads','vocab','seq_len','gpus','mbs','gbs'): setattr(o,k,g(k))
    o.kv=g('kv_heads') or o.heads; o.hd=g('head_dim') or o.hidden//o.heads
    o.tp=g('tp',1) or 1;o.pp=g('pp',1) or 1;o.cp=g('cp',1) or 1;o.ep=g('ep',1) or 1
    o.dp=g('dp') or o.gpus//(o.tp*o.pp*o.cp)
    fw=r['framework'];o.fw=fw;src=r['source']
    o.gelu=not r['ffn_type'].startswith('swiglu')
    o.ffn=g('ffn') or (4*o.hidden if o.gelu else (11008 if o.hidden==4096 else 0))
    o.E=g('moe_experts');o.K=g('moe_topk');o.sh=g('moe_shared_experts');o.ef=g('moe_expert_ffn')
    if not o.vocab: o.vocab=51200 if 'gpt' in r['model'].lower() or 'GPT' in r['model'] else 50432
    o.mla='MLA' in r['moe_note'] ; o.win='sliding' in r['moe_note']
    m=re.search(r'first (\d+) layer',r['moe_note']); o.dense=int(m[1]) if m else 0
    if not o.E:o.dense=o.layers
    p=r['precision']; o.bits=4 if 'fp4' in p else 8 if ('fp8' in p or 'float8' in p) else 16
    if 'mxfp8_' in p:o.bits=8
    o.vp=g('vp',0)
    o.sp = r['sp']!='no' and o.tp>1
    z=r['zero'];o.fsdp='FSDP' in z or 'SHARD' in z or z=='3' or z=='HSDP'
    o.hsdp = z=='HSDP' ; o.zero1=z.startswith('1') ; o.zg='GRAD_OP' in z
    o.rec=r['recompute']
    o.gpn=g('gpus_per_node') or 8
    o.dom=g('nvlink_domain') or 8
    # stack profile
    S='megatron' in fw.lower() or 'nemo' in fw.lower() or 'megatron' in src.lower()
    o.flash='fa3'; o.mb=C['mb_f'];o.host=C['h_mega'];o.eager=False;o.tpov=False;o.ovdp=True;o.oldblas=False;o.graph=False
    o.unfused_logits=False
    if src=='llm-foundry': o.flash='fa1';o.mb=C['mb_e'];o.host=C['h_eager'];o.eager=True
    elif src.startswith('BigScience') or src.startswith('BLOOM'): o.flash=None;o.ovdp=False;o.oldblas=True
    elif "SC'21" in src: o.flash=None;o.ovdp=False;o.oldblas=True
    elif src.startswith('Reducing'): o.flash=None;o.ovdp=False;o.oldblas=True
    elif src.startswith('Zero Bubble'): o.flash=None
    elif src.startswith('InternEvo'): o.flash='fa2';o.eager=True;o.mb=C['mb_e'];o.host=C['h_eager']
    elif 'torchtitan' in src or 'torchao' in src:
        o.flash='fa2' ;
        o.eager= 'compile' not in fw; o.mb=C['mb_e'] if o.eager else C['mb_f'];o.host=C['h_eager']
    elif src.startswith('IBM'): o.flash='fa2';o.host=C['h_eager']
    elif 'NeMo' in src or 'MLPerf' in src: o.tpov=True
    if 'NeMo/Megatron' in src or 'NeMo 2' in fw:
        if '26.0' in fw and ('26.06' in fw or '26.08' in fw): o.graph=True;o.a2aov=True
    o.a2aov='moe_a2a_overlap' in r['recompute_detail'] or o.graph
    if 'cuda_graph=full' in r['recompute_detail']: o.graph=True
    return o
def gemm(o,D,m,n,k,cnt=1,acc=None,bits=None):
    bits=bits or o.bits
    P=D['P'].get(bits) or D['P'][16]
    best=9e9
    tiles=((256,256,1.),(128,256,.93),(128,128,.8)) if 'B' in o.r['gpu_class'][:2] else ((128,256,1.),(256,128,1.),(128,128,.9))
    for a,b,e in tiles:
        t=math.ceil(m/a)*math.ceil(n/b); waves=math.ceil(t/D['sm'])
        w=waves*D['sm']*a*b/(m*n)
        best=min(best,w**(.8 if o.oldblas else C['b'])/e)
    clk=D['clk']*o.pow*(C['clk8'] if bits<16 else 1)
    fl=2*m*n*k/(P*clk)*best*(1+C['k0'][bits]/k)
    by=bits/8
    mem=(by*(m*k+n*k)+ (acc or 2)*m*n)/(.8*D['BW'])
    t=D['t0']+max(fl,mem)
    if bits<16:
        t+=C['q8']*(2+by)*(m*k)/(.85*D['BW']) *.5 + 0
        t+=6*us
    return t*cnt
def coll(D,n,s,kind,o):
    if n<=1:return 0
    f=(n-1)/n*(2 if kind=='ar' else 1)
    B=D['B']*(D['nvls'] if n>=6 and kind!='a2a' else 1)*(D['n2'] if n==2 else 1)
    x=s*f/B
    return D['a']+D['hop']*(n-1)*(2 if kind=='ar' else 1)+x+math.sqrt(x*D['ramp'])
def net(D,o,n,r,s,kind):
    """n ranks, r of them in one domain"""
    r=max(1,min(n,r)); N=n//r
    if N<=1:return coll(D,n,s,kind,o)
    f=(N-1)/N*(2 if kind=='ar' else 1)
    inter=s*f/(r*nic_of(o.r,D)*C['nic'])+25*us+5*us*math.log2(N)
    return max(inter,coll(D,r,s,kind,o))
def attn(o,D,M,seq,heads,d,dv,fwd,win=None):
    b=M*o.cp/seq  # sequences (M tokens per cp rank)
    fl=2*b*seq*seq*heads*(d+dv)/o.cp*.5   # causal forward
    if o.flash is None:
        P=D['P'][16]*D['clk']*o.pow*.75
        q=1
        if (d%8): q=2.
        full=2*fl
        x=full/P*(4 if d%8 else 1)*(1 if fwd else 2)
        sc=b*seq*seq*heads/o.cp
        x+=sc*(14 if fwd else 18)*(2 if d%8 else 1)/(.85*D['BW'])
        return x
    fa=D['fa'].get(o.flash) or D['fa']['fa2']
    R=fa[0 if fwd else 1]*1e12*o.pow*D['clk']/ .85
    if win and win<seq:
        fl=fl*2*win/seq
        R=D['fa'].get('win',fa)[0 if fwd else 1]*1e12
        return fl*(1 if fwd else 2.5)/R
    c=2.7
    rate=R/(1+250*c/seq)
    if d<=64: rate*=.85
    return fl*(1 if fwd else 2.5)/rate+5*us
def layer(o,D,moe,i):
    """forward, backward times of one layer for one micro-batch, plus dict"""
    M=o.mbs*o.seq_len//o.cp; h=o.hidden; tp=o.tp; bw=.85*D['BW']
    sp=tp if o.sp else 1
    q=o.heads*o.hd//tp; kvw=max(1,o.kv*o.hd//tp) if o.kv>=tp else o.hd
    G=[] # (m,n,k)
    if o.mla:
        H=o.heads//tp
        G+=[(M,1536,h),(M,H*192,1536),(M,576,h),(M,H*256,512),(M,h,H*128)]
        d,dv=192,128
        core=H*(192*2+128);outw=H*128
        mbq=3*H*192*2+H*256*2
    else:
        G+=[(M,q+2*kvw,h),(M,h,q)]
        d=dv=o.hd;outw=q;core=q+2*kvw
        mbq=0 if o.gelu else 4*(q+kvw)
    heads=o.heads//tp
    gated=1 if o.gelu else 2
    nd=0; mbact=0;
    if not moe:
        G+=[(M,gated*o.ffn//tp,h),(M,h,o.ffn//tp)]; mbact=(gated+1)*o.ffn//tp
    elif o.sh:
        G+=[(M,gated*o.sh*o.ef//tp,h),(M,h,o.sh*o.ef//tp)];mbact=(gated+1)*o.sh*o.ef//tp
    f=sum(gemm(o,D,*g) for g in G)
    b=0
    for m,n,k in G:
        b+=gemm(o,D,m,k,n)+gemm(o,D,n,k,m,acc=8)
    win=128 if (o.win and i%2==0) else None
    fa=attn(o,D,M,o.seq_len,heads,d,dv,True,win); ba=attn(o,D,M,o.seq_len,heads,d,dv,False,win)
    passes=(2*2+2*3)*h/sp+mbq+mbact
    fm=M*passes*2/bw*o.mb; bm=1.7*fm
    comm_f=comm_b=0; kern=20
    if tp>1:
        s=M*h*2
        if o.sp: one=coll(D,tp,s,'ag',o);one=2*one
        else: one=coll(D,tp,s,'ar',o)
        c=2*one
        if o.tpov:
            c=2*one*(1-C['tp_hid'])
        comm_f+=c;comm_b+=c*(1.25 if o.sp else 1) if False else c
    if o.cp>1:
        kvb=M*2*(kvw if not o.mla else heads*192)*2*(o.cp-1)
        t=kvb/(D['B']*.8 if o.cp*tp<=o.dom else nic_of(o.r,D)*C['nic'])
        def ring(a,c):return max(0,c-a)+.22*min(a,c)
        comm_f+=ring(fa,t);comm_b+=ring(ba,2*t)
    if moe:
        # experts
        le=o.E//o.ep; tok=M*o.K*tp/ (tp) # tokens arriving per rank (balanced); tp ranks share SP tokens
        tokr=M*o.K/(tp if o.sp else 1)   # etp=1: tokens / tp
        ef=o.ef
        mt=tokr/ le*1.0  # tokens per local expert: tokr*ep / E
        mt=tokr*o.ep/o.E
        bits=o.bits
        P=(D['P'].get(bits) or D['P'][16])*D['clk']*o.pow*(C['clk8'] if bits<16 else 1)
        eff=mt/(mt+C['me0'])
        wb=le*(gated+1)*h*ef
        fl=2*tokr*(gated+1)*h*ef/(P*eff)
        wt=wb*bits/8/(.8*D['BW'])
        ex=max(fl,wt)+ (C['q8']*(2+bits/8)*.5*tokr*(h+ef)/bw if bits<16 else 0)
        f+=ex; b+=2*ex+ (0)
        mm=tokr*(gated+1)*ef+ tokr*h*6 + M*h/sp*4
        fm+=mm*2/bw*o.mb*C['moe_mb'];bm+=1.7*mm*2/bw*o.mb*C['moe_mb']
        # a2a
        if o.ep>1:
            s=tokr*h*2
            dom=o.dom
            r=min(o.ep,max(1,dom//tp)) if True else o.ep
            inside=coll(D,min(o.ep,r),s,'a2a',o)/ .63 if False else (s*(o.ep-1)/o.ep/(D['B']*C['a2a']/.8*1)+D['a'])
            N=max(1,o.ep//r)
            t=inside
            if N>1:
                copies=min(o.K,N)*(1-1/N)
                t=max(t,M/(tp if o.sp else 1)*copies*h*2/(nic_of(o.r,D)*C['nicx']))
            t*=2
            hid=.75 if o.a2aov else 0
            comm_f+=t*(1-hid);comm_b+=t*(1-hid)
        kern=48+le*{16:4,8:18,4:36}[bits if bits!=8 or 'mx' not in o.r['precision'] else 4]*1.0
    kf=(f+fa+fm+comm_f); kb=(b+ba+bm+comm_b)
    p4=lambda a,b:(a**4+b**4)**.25
    hf=0 if o.graph else kern*o.host
    hb=1.6*hf
    Fw=p4(kf,hf);Bw=p4(kb,hb)
    rec=0
    det=o.rec
    if det.startswith('full'): rec=Fw if 'some' not in det else .2*Fw
    elif 'op' in det and o.flash: rec=.45*Fw
    elif 'layer' in det: rec=.5*Fw
    elif 'every 2nd' in det: rec=.5*Fw
    elif det.startswith('selective') and o.r['source'].startswith('Reducing'): rec=fa*.6
    elif det.startswith('selective') and o.r['source'].startswith('IBM'): rec=Fw*.33
    elif det.startswith('selective'): rec=fa
    return Fw,Bw,rec,dict(gemm=f+b,attn=fa+ba,mem=fm+bm,comm=comm_f+comm_b)
def params_layer(o,moe):
    h=o.hidden
    if o.mla: a=h*1536+1536*o.heads*192+h*576+512*o.heads*256+o.heads*128*h
    else: a=h*(o.heads+2*o.kv)*o.hd+o.heads*o.hd*h
    g=2 if o.gelu else 3
    if not moe: return a+g*h*o.ffn,0
    return a+h*o.E+g*h*o.sh*o.ef, g*h*o.ef*o.E
def head(o,D):
    M=o.mbs*o.seq_len//o.cp;v=o.vocab//o.tp
    f=gemm(o,D,M,v,o.hidden,bits=16);b=gemm(o,D,M,o.hidden,v,bits=16)+gemm(o,D,v,o.hidden,M,acc=8,bits=16)
    ce=M*v*6*(6 if o.eager else 3)/(.85*D['BW'])
    return f+ce*.4,b+ce*.6
def predict(r):
    o=parse(r); D=dict(DEV[r['gpu_class'] if r['gpu_class']!='A800' else 'A100'])
    o.pow=1.
    if '40GB' in r['gpu']: D['BW']=1555e9
    if '2.4TB' in r['gpu']: D['BW']=2400e9;o.pow=(500/700)**.4
    if 'lower TDP' in r['gpu']: D['BW']=2400e9;o.pow=(500/700)**.4
    acc=o.gbs//(o.dp*o.mbs) or 1
    L=o.layers
    lt=[layer(o,D,i>=o.dense,i) for i in ([0] if not o.E else list(range(min(2,o.layers)))+[L-2,L-1])]
    ls={}
    def lay(i):
        k=(i>=o.dense,i%2 if o.win else 0)
        if k not in ls: ls[k]=layer(o,D,i>=o.dense,i)
        return ls[k]
    Lf=[lay(i) for i in range(L)]
    hf,hb=head(o,D)
    pp=o.pp
    vp=o.vp or (1 if pp>1 else 1)
    src=r['source']
    if pp>1 and not o.vp and 'NeMo' in src:
        vp=1
        for c in (5,4,3,2):
            if L%(pp*c)==0: vp=c;break
    # params per rank
    pl=[params_layer(o,i>=o.dense) for i in range(L)]
    dense_p=sum(p[0] for p in pl)/(o.tp*pp)
    exp_p=sum(p[1] for p in pl)/(o.ep*pp)
    emb=o.vocab*o.hidden/o.tp
    T={}
    bal=[ (x[0]+x[1]+x[2]) for x in Lf]
    tot=sum(bal)
    if o.fsdp:
        # per layer gather
        pr=sum(sum(p) for p in pl)/L/o.tp
        n=o.dp*o.cp; rr=max(1,o.dom//o.tp) if 'GB' in r['gpu_class'] else max(1,8//o.tp)
        if o.hsdp: n=min(n,8)
        by=2*pr
        if 'f8 all' in r['precision']: by=1*pr
        ag=net(D,o,n,rr,by,'ag')
        if r['zero']=='3' and 'SC' in src: ag=by*(n-1)/n/16e9
        gb=2 if (src!='torchx') else 4
        if 'torchtitan' in src or 'torchao' in src: gb=4
        if 'amp' in r['precision']: gb=2
        rs=net(D,o,n,rr,gb*pr,'ag')
        if o.hsdp and o.dp>8: rs+=net(D,o,o.dp//8,1,gb*pr/8,'ar')
        cp_f=4*pr/(.85*D['BW']);cp_b=10*pr/(.85*D['BW'])
        ov=lambda a,c: max(a,c)+C['gamma']*min(a,c)
        step=0
        for f,b,rc,_ in Lf:
            ff=f+cp_f;bb=b+rc+cp_f+cp_b
            step+=acc*(ov(ff,ag)+ov(bb,(0 if o.zg else ag)+rs))
        eg=emb*2*(1 if True else 1)
        step+=acc*(hf+hb+ 2*net(D,o,n,rr,by*0+2*emb,'ag')+net(D,o,n,rr,gb*emb,'ag')*2)
        own=(sum(sum(p) for p in pl)/o.tp+2*emb)/n
        opt=own*(48 if o.eager else 34)/(.85*D['BW'])
        step+=opt+C['fix']
        T=dict(fsdp=ag+rs)
    else:
        # stages
        if pp>1:
            st=L/pp; 
            x=tot/L
            # stage times
            even=L%(pp*vp)==0
            t=[tot/pp]*pp
            if even: pass
            else:
                if (L+2)%pp==0:
                    t=[x*(L+2)/pp]*pp; t[0]-=x; t[-1]-=x
                else:
                    t=[tot/pp]*pp; t[1%pp]+=.35*x
            embt=.0
            t[-1]+=hf+hb
            if 'balanced' in o.fw or o.r['source'].startswith('Zero Bubble'):
                pass
            m=acc
            mx=max(t)
            bub=(sum(t)-mx)/vp
            zb={'ZB-1p':.4,'ZB-2p':.02}.get(o.fw.split('+ ')[-1].strip(),1)
            if zb<1:bub*=zb
            M=o.mbs*o.seq_len//o.cp
            sb=M*o.hidden*2/(o.tp)
            inter = o.tp*o.cp*o.dp>o.dom or True
            ship=sb/(nic_of(r,D)*C['nic'] if o.gpus>o.dom else D['B'])+15*us
            step=m*mx+bub+ship*(2*m*vp*(.25 if src!='BigScienceX' and o.ovdp else 1)+2*(pp-1))
        else:
            step=acc*(tot+hf+hb); mx=tot+hf+hb
        # data parallel
        n=o.dp*o.cp; rr=max(1,o.dom//o.tp)
        if pp>1 and o.gpus>o.dom: rr=max(1,min(n,o.dom//o.tp))
        P=dense_p+ emb*(1 if pp>1 else 2)
        gbytes=4
        if o.r['source'].startswith('BigScience') or 'BLOOM' in src: gbytes=2 if 'fp32' not in r['precision'] else 4
        if 'MLPerf' in src or 'NeMo' in src: gbytes=4 if o.bits==16 else 2
        if 'InternEvo' in src: gbytes=2
        red=net(D,o,n,rr,gbytes*P,'ag')+net(D,o,n,rr,2*P,'ag')
        if r['zero']=='0': red=net(D,o,n,rr,gbytes*P,'ar')
        if n==1: red=0
        if exp_p:
            ne=max(1,o.dp*o.cp*o.tp//o.ep)
            ne_r=max(1,o.dom//o.ep) if o.ep<o.dom else 1
            if ne>1: red+=net(D,o,ne,ne_r,gbytes*exp_p,'ag')+net(D,o,ne,ne_r,2*exp_p,'ag')
        lastb=sum(x[1]+x[2] for x in Lf)/pp
        if o.ovdp:
            w=lastb/vp+(vp-1)/vp*min(acc,pp)*lastb if pp>1 else lastb
            hid=min(red,C['dp_hid']*w*1.5)
            ex=red-hid+C['gamma']*hid
        else: ex=red
        if 'InternEvo' in src: pass
        own=P/(n if (o.zero1 or r['zero']=='') else 1)+exp_p/max(1,o.dp*o.cp*o.tp//o.ep)
        opt=own*34/(.85*D['BW'])
        step+=ex+opt+(7e-3 if o.graph else C['fix'])
        T=dict(red=red,ex=ex,opt=opt)
    step*=1+C['scale']*math.log2(max(1,o.gpus/o.gpn))
    return step,o,T,ls
def spec(r):
    if not(r['iter_time_s'] or r['iter_time_derived_s']): return 'no time'
    if r['task']=='LoRA': return 'LoRA'
    if not(r['mbs'] and r['gbs'] and r['tp'] and r['pp'] and r['gpus'] and r['layers']): return 'mbs'
    if 'Pax' in r['source']: return 'recompute'
    return None
def wq(xs,q):
    xs=sorted(xs);t=sum(w for _,w in xs);c=0
    for x,w in xs:
        c+=w
        if c>=q*t-1e-12:return x
def stat(es):
    a=[(abs(e),w) for e,w in es];t=sum(w for _,w in a)
    return '%5.1f/%5.1f/%5.1f  bias %+5.1f'%(100*wq(a,.5),100*wq(a,.9),100*sum(x*w for x,w in a)/t,100*sum(e*w for e,w in es)/t)
if __name__=='__main__':
    R=list(csv.DictReader(open(V+'steps.csv')))
    rows=[r for r in R if spec(r) is None]
    cnt=collections.Counter(r['group'] for r in rows)
    res=[]
    for r in rows:
        t=F(r['iter_time_s']) or F(r['iter_time_derived_s'])
        try:p,o,T,ls=predict(r)
        except Exception as e:
            if '-x' in sys.argv: raise
            print('ERR',r['id'],r['model'],repr(e));continue
        res.append((p/t-1,1/cnt[r['group']],r,o,T,ls))
    print(len(rows),len(cnt),'ALL',stat([(e,w) for e,w,*_ in res]))
    print('dense',stat([(e,w) for e,w,r,*_ in res if not r['moe_experts']]),'moe',stat([(e,w) for e,w,r,*_ in res if r['moe_experts']]))
    S=collections.defaultdict(list)
    for x in res:S[x[2]['source']].append(x)
    med=[]
    for s,x in sorted(S.items(),key=lambda k:-len(k[1])):
        es=[(e,w) for e,w,*_ in x]; med.append(wq([(abs(e),w) for e,w in es],.5))
        print('%-42s %3d %s'%(s,len(x),stat(es)))
    print('mean of source medians',100*sum(med)/len(med))
    D=collections.defaultdict(list)
    for x in res:D[x[2]['gpu_class']].append(x)
    for s,x in D.items(): print('   %-10s %3d %s'%(s,len(x),stat([(e,w) for e,w,*_ in x])))
    if len(sys.argv)>1:
        for e,w,r,o,T,ls in res:
            if sys.argv[1] in r['source']:
                print('%+6.1f'%(100*e),r['model'],r['gpu'],r['gpus'],'tp',o.tp,'pp',o.pp,'vp',o.vp,'cp',o.cp,'ep',o.ep,'dp',o.dp,'mbs',o.mbs,'gbs',o.gbs,'s',o.seq_len,r['precision'],r['recompute'],r['framework'][:22],r['zero'])
