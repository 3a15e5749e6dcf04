var d_=new Intl.NumberFormat("en"),p_=new Intl.NumberFormat("en",{notation:"compact",maximumSignificantDigits:3}),h_=new Intl.DateTimeFormat(void 0,{hour:"2-digit",minute:"2-digit",second:"2-digit"}),m_=new Intl.DateTimeFormat(void 0,{dateStyle:"medium",timeStyle:"medium"}),Op=new Intl.RelativeTimeFormat("en",{numeric:"auto",style:"short"}),x=t=>t==null?"–":d_.format(t),lt=t=>t==null?"–":p_.format(t);function nt(t){return t==null?"–":t===0?"$0":t<.01?`$${t.toPrecision(2)}`:`$${t.toFixed(t<1?3:2)}`}function Se(t){if(t==null)return"–";let e=["B","KiB","MiB","GiB"],n=0,s=t;for(;s>=1024&&n<e.length-1;)s/=1024,n+=1;return`${n===0||s>=10?Math.round(s):s.toFixed(1)} ${e[n]}`}function _e(t){if(t==null)return"–";if(t<1e3)return`${Math.round(t)} ms`;if(t<9950)return`${(t/1e3).toFixed(1)} s`;let e=Math.round(t/1e3);if(e<60)return`${e} s`;let n=Math.floor(e/60);return n<60?`${n} min ${e%60} s`:`${Math.floor(n/60)} h ${n%60} min`}var Rt=t=>t?h_.format(new Date(t)):"–",ze=t=>t?m_.format(new Date(t)):"–",g_=[["second",60],["minute",60],["hour",24],["day",30],["month",12],["year",1/0]],$_=864e5,v_=43200,Ap=t=>new Date(t).setHours(0,0,0,0);function Mp(t,e){let n=(new Date(t).getTime()-e)/1e3,s=Math.round((Ap(t)-Ap(e))/$_);if(n<-v_&&s<0&&s>-30)return Op.format(s,"day");for(let[o,i]of g_){if(Math.abs(n)<i)return Op.format(Math.round(n),o);n/=i}return""}var Fe=t=>t==null||Number.isNaN(t)?"–":`${Math.round(t*100)}%`,Rp=/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu,ru=/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[ -/]+[0-~]|[@-Z\\-_])/g;function ue(t){return t.replace(ru,"").replace(/\r\n/g,`
`).replace(Rp,Pp)}var io=t=>t.replace(Rp,Pp),L=t=>ue(t).replace(/[\n\t]/g," "),Lp=t=>L(t.replace(/^[ \t]*(?:#{1,6}|>|[-*+]|\d{1,3}\.)[ \t]+/gm,"").replace(/^[ \t]*(?:```|~~~).*$/gm,"").replace(/!?\[([^\][\n]*)\]\([^()\s]*\)/g,"$1").replace(/\*\*|__|`/g,"")).trim(),Lt=({title:t,task:e,id:n})=>L(t||e||n);function Pp(t){let e=t.codePointAt(0);return e<32?String.fromCharCode(9216+e):`‹U+${e.toString(16).toUpperCase().padStart(4,"0")}›`}var Ae,Dp,uu,Ls,lu,kl,Np,yl,Fp,fu,au,zp,nr=Symbol.for("pv"),xl={},Sl=[],b_=/^m(i|n|o|s|text|space)$/,du=Array.isArray,pu=Sl.slice,lo=Object.assign;function ro(t){t&&t.parentNode&&t.remove()}function Jn(t,e,n){var s,o,i,r={},l=arguments.length;for(i in e)i=="key"?s=e[i]:i=="ref"&&typeof t!="function"?o=e[i]:r[i]=e[i];return l>2&&(r.children=l>3?pu.call(arguments,2):n),tr(t,r,s,o,null)}function tr(t,e,n,s,o){var i={type:t,props:e,key:n,ref:s,__k:null,__:null,__b:0,__e:null,__c:null,constructor:nr,__v:o||++Dp,__i:-1,__u:0};return!o&&Ae.vnode&&Ae.vnode(i),i}function Is(t){return t.children}function Zo(t,e){this.props=t,this.context=e,this.__g=0}function Ps(t,e){if(e==null)return t.__&&Ps(t.__,t.__i+1);for(var n;e<t.__k.length;e++)if((n=t.__k[e])&&n.__e)return n.__e;return typeof t.type!="function"||t.props.__P?null:Ps(t)}function w_(t){var e,n=t.__v,s=n.__e,o=[],i=[],r=t.__P;r&&((e=lo({constructor:nr},n)).__v=n.__v+1,Ae.vnode&&Ae.vnode(e),hu(r,e,n,t.__n,r.namespaceURI,32&n.__u?[s]:null,o,s||Ps(n),32&n.__u,i),e.__v=n.__v,e.__.__k[e.__i]=e,Hp(o,e,i),n.__=n.__e=null,e.__e!=s&&Wp(e))}function Wp(t){if((t=t.__)&&t.__c&&!t.props.__P)return t.__e=null,t.__k.some(function(e){return e&&(t.__e=e.__e)}),Wp(t)}function cu(t){(8&t.__g||(t.__g|=8,Ls.push(t),kl++))&&lu==Ae.debounceRendering||((lu=Ae.debounceRendering)||queueMicrotask)(Bp)}function Bp(){try{for(var t,e=1;Ls.length;)Ls.length>e&&Ls.sort(Np),t=Ls.shift(),e=Ls.length,8&t.__g&&w_(t)}finally{(kl=Ls.length)&&(lu||queueMicrotask)(Bp)}}function qp(t,e,n,s,o,i,r,l,a,u,f){var d,h,g,v,_,k,T=s.__k||Sl,y=e.length;for(a=y_(n,e,T,a,y),d=0;d<y;d++)(g=n.__k[d])!=null&&(h=~g.__i&&T[g.__i]||xl,g.__i=d,k=hu(t,g,h,o,i,r,l,a,u,f),v=g.__e,(h.ref!=g.ref||8&h.__u)&&(h.ref&&mu(h.ref,null,g,h),g.ref&&f.push(g.ref,g.__c||v,g)),_=_||v,4&g.__u?(a=Up(g,a,t,!h.__v),h.__e&&(h.__e=null)):typeof g.type=="function"&&k!==void 0?a=k:v&&(a=v.nextSibling),g.__u&=-21);return n.__e=_,a}function y_(t,e,n,s,o){var i,r,l,a,u,f,d,h,g,v=n.length,_=v,k=0,T=0,y=t.__k=Array(o);for(i=0;i<o;i++)(r=e[i])!=null&&typeof r!="boolean"&&typeof r!="function"?(typeof r!="object"||r.constructor===String?r=y[i]=tr(null,r):du(r)?r=y[i]=tr(Is,{children:r}):r.constructor===nr&&r.__b?r=y[i]=tr(r.type,r.props,r.key,r.ref,r.__v):y[i]=r,a=i+k,r.__=t,r.__b=t.__b+1,l=null,~(u=r.__i=__(r,n,a,_))&&(_--,(l=n[u])&&(l.__u|=2)),l&&l.__v?(r.__u|=16,u==a-1?k--:u==a+1?k++:u!=a&&(u>a?k--:k++,T=1)):(~u||(o>v?k--:o<v&&k++),typeof r.type!="function"&&(r.__u|=4))):y[i]=null;if(T){for(f=[],d=[],i=0;i<o;i++)if((r=y[i])&&16&r.__u){for(k=0,h=f.length;k<h;)f[g=k+h>>1]<r.__i?k=g+1:h=g;f[k]=r.__i,d[i]=k+1}for(k=f.length;i--;)d[i]&&(d[i]==k?k--:y[i].__u|=4)}if(_)for(i=0;i<v;i++)!(l=n[i])||2&l.__u||(l.__e==s&&(s=Ps(l)),gu(l,l));return s}function Up(t,e,n,s){var o,i,r,l;if(typeof t.type=="function"){if(t.props.__P)return e;if(o=t.__k)for(i=0;i<o.length;i++)o[i]&&(o[i].__=t,e=Up(o[i],e,n,!1));return e}for(e&&!e.parentNode&&(e=Ps(t))&&!e.parentNode&&(e=null),r=t.__e,l=e;l&&l.nodeType==8;)l=l.nextSibling;for(r!=l&&(!s&&n.moveBefore&&r.parentNode?n.moveBefore(r,e):n.insertBefore(r,e||null)),e=r;(e=e&&e.nextSibling)&&e.nodeType==8&&!e.data.startsWith("$s"););return e}function __(t,e,n,s){var o,i=t.key,r=t.type,l=e[n],a=l&&!(2&l.__u);if(l===null&&i==null||a&&i==l.key&&r==l.type)return n;if(s>(a?1:0)){for(o=n-1;o>=0;o--)if((l=e[o])&&!(2&l.__u)&&i==l.key&&r==l.type)return o;for(o=n+1;o<e.length;o++)if((l=e[o])&&!(2&l.__u)&&i==l.key&&r==l.type)return o}return-1}function Ip(t,e,n){n==null&&(n=""),e[0]=="-"?t.setProperty(e,n):t[e]=n}function wl(t,e,n,s,o){var i,r;if(e=="style")if(typeof n=="string")t.style.cssText=n;else{if(typeof s=="string"&&(t.style.cssText=s=""),s)for(e in s)n&&e in n||Ip(t.style,e);if(n)for(e in n)s&&n[e]==s[e]||Ip(t.style,e,n[e])}else if(e[0]=="o"&&e[1]=="n")typeof n!="function"&&(n=null),typeof s!="function"&&(s=null),(t.__e||(t.__e={}))[e]=n,n&&s||(r=au[e]||(au[e]=k_(e)),(t.__a||(t.__a={}))[e]=fu,i=e!=(e=e.replace(Fp,"$1")),(e=e.slice(2))[0]<"a"&&(e=e.toLowerCase()),n?t.addEventListener(e,r,i):t.removeEventListener(e,r,i));else{if(o=="http://www.w3.org/2000/svg")e=e.replace(/xlink(H|:h)/,"h").replace(/sName$/,"s");else if(e!="width"&&e!="height"&&e!="href"&&e!="list"&&e!="form"&&e!="tabIndex"&&e!="download"&&e!="rowSpan"&&e!="colSpan"&&e!="role"&&e!="popover"&&e in t)try{return void(t[e]=n??"")}catch{}if(typeof n=="function")return;n==null||n===!1&&e[4]!="-"?t.removeAttribute(e):t.setAttribute(e,e=="popover"&&n==1?"":n)}}function k_(t){return function(e){var n=this.__e;if(n){if(n=n[t],e[yl]==null)e[yl]=fu++;else if(e[yl]<this.__a[t])return;return n(Ae.event?Ae.event(e):e)}}}function hu(t,e,n,s,o,i,r,l,a,u){var f,d,h,g,v,_,k,T,y,E,A,U,F,G,K,se,J,N,Q=e.type;if(e.constructor!==nr)return null;128&n.__u&&(a=32&n.__u,f=n.__c.__z)&&(e.__u|=a,d=i=[],f.nodeType==8?l=_l(f,i):i.push(f),l=i[0]||l),(f=Ae.__b)&&f(e);e:if(typeof Q=="function"){h=r.length;try{if(T=e.props,y=(f=Q.prototype)&&f.render,E=(f=Q.contextType)&&s[f.__c],A=f?E?E.props.value:f.__:s,(g=n.__c)?(e.__c=g,2&g.__g&&(g.__g|=1)):(y?e.__c=g=new Q(T,A):(e.__c=g=new Zo(T,A),g.constructor=Q,g.render=S_),E&&E.sub(g),g.state||(g.state={}),g.__n=s,g.__g|=8,g.__h=[],g.__k=[]),y&&(g.__s||(g.__s=g.state),Q.getDerivedStateFromProps&&(g.__s==g.state&&(g.__s=lo({},g.__s)),lo(g.__s,Q.getDerivedStateFromProps(T,g.__s)))),v=g.props,_=g.state,g.__v=e,n.__c){if(T!==v&&y&&!Q.getDerivedStateFromProps&&g.componentWillReceiveProps&&g.componentWillReceiveProps(T,A),e.__v==n.__v&&!(8&g.__g)||!(4&g.__g)&&g.shouldComponentUpdate&&g.shouldComponentUpdate(T,g.__s,A)===!1){e.__v!=n.__v&&(g.props=T,g.state=g.__s,g.__g&=-9),e.__e=n.__e,e.__k=n.__k,e.__k.some(function(B){B&&(B.__=e)}),Sl.push.apply(g.__h,g.__k),g.__k=[],g.__h.length&&r.push(g),l=Ps(n);break e}g.componentWillUpdate&&g.componentWillUpdate(T,g.__s,A),y&&g.componentDidUpdate&&g.__h.push(function(){g.componentDidUpdate(v,_,k)})}else y&&!Q.getDerivedStateFromProps&&g.componentWillMount&&g.componentWillMount(),y&&g.componentDidMount&&g.__h.push(g.componentDidMount);g.context=A,g.props=T,g.__P=t,g.__g&=-5,U=Ae.__r,F=y?25:0;do g.__g&=-9,U&&U(e),f=g.render(g.props,g.state=g.__s,g.context);while(8&g.__g&&++F<25);y&&(Sl.push.apply(g.__h,g.__k),g.__k=[]),g.state=g.__s,g.getChildContext&&(s=lo({},s,g.getChildContext())),y&&n.__c&&g.getSnapshotBeforeUpdate&&(k=g.getSnapshotBeforeUpdate(v,_)),G=f&&f.type===Is&&f.key==null?f.props.children:f,T.__P&&(f=l,o=(t=T.__P).namespaceURI,a=i=null,n.props&&n.props.__P!=t&&(n.__k.some(function(B){B&&gu(B,B)}),n.__k=null),l=n.__k?Ps(n,0):null),l=qp(t,du(G)?G:[G],e,n,s,o,i,r,l,a,u),T.__P&&(e.__e=null,l=f),e.__u&=-161,d&&d.some(ro),g.__h.length&&r.push(g),1&g.__g&&(g.__g&=-4)}catch(B){if(r.length=h,e.__v=null,a||i)if(B&&B.then){if(e.__u|=128|a,i){for(~(J=i.indexOf(l||void 0))||(J=i.length);(N=i[J-1])&&N.nodeType==8;)J--;for(;J<i.length;J++)if(N=i[J])if(i[J]=null,K){if(N==se)break}else{if(N.nodeType!=8)break;N.data.startsWith("$s")&&(se=_l(K=N))}}if(!K){for(;l&&l.nodeType==8&&l.nextSibling;)l=l.nextSibling;K=l}(f=_l(K=e.__c.__z||(e.__c.__z=K)))?(e.__e=K,l=f):e.__e=l,l=l&&l.nextSibling}else i&&i.some(ro);else e.__e=n.__e;e.__k||(e.__k=n.__k||[]),B&&B.then||jp(e),Ae.__e(B,e,n)}}else l=e.__e=x_(n.__e,e,n,s,o,i,r,a,u,t);return(f=Ae.diffed)&&f(e),l}function _l(t,e){if(t&&t.nodeType==8&&t.data.startsWith("$s"))for(var n=1;t=t.nextSibling;){if(t.nodeType==8){if(t.data.startsWith("$s"))n++;else if(t.data.startsWith("/$s")&&!--n)return t}e&&e.push(t)}}function jp(t){t&&(t.__c&&(t.__c.__g|=4),t.__k&&t.__k.some(jp))}function Hp(t,e,n){for(var s=0;s<n.length;)mu(n[s++],n[s++],n[s++]);Ae.__c&&Ae.__c(e,t),t.some(function(o){try{t=o.__h,o.__h=[],t.some(function(i){i.call(o)})}catch(i){Ae.__e(i,o.__v)}})}function x_(t,e,n,s,o,i,r,l,a,u){var f,d,h,g,v,_,k,T,y=n.props||xl,E=e.props,A=e.type;if(A=="svg"?o="http://www.w3.org/2000/svg":A=="math"?o="http://www.w3.org/1998/Math/MathML":o||(o="http://www.w3.org/1999/xhtml"),i){for(f=0;f<i.length;f++)if((v=i[f])&&(A?v.localName==A:v.nodeType==3)){t=v,i[f]=null;break}}if(!t){if(T=u.ownerDocument||document,!A)return T.createTextNode(E);t=T.createElementNS(o,A,E.is?E:u),l&&(Ae.__m&&Ae.__m(e,i),l=!1),i=null}if(A){if(u=A=="template"&&t.content||t,i=A=="textarea"&&E.defaultValue!=null?null:i&&pu.call(u.childNodes),!l&&i)for(y={},f=0;f<t.attributes.length;f++)y[(v=t.attributes[f]).name]=v.value;for(f in y)v=y[f],f=="dangerouslySetInnerHTML"?h=v:f=="children"||f in E||f=="value"&&"defaultValue"in E||f=="checked"&&"defaultChecked"in E||wl(t,f,null,v,o);for(f in E)v=E[f],f=="children"?g=v:f=="dangerouslySetInnerHTML"?d=v:f=="value"?_=v:f=="checked"?k=v:l&&typeof v!="function"||y[f]===v||wl(t,f,v,y[f],o);d?(l||h&&(d.__html==h.__html||d.__html==t.innerHTML)||(t.innerHTML=d.__html),e.__k=[]):(h&&(t.textContent=""),(A=="foreignObject"||o=="http://www.w3.org/1998/Math/MathML"&&b_.test(A))&&(o="http://www.w3.org/1999/xhtml"),qp(u,du(g)?g:[g],e,n,s,o,i,r,i?i[0]:n.__k&&Ps(n,0),l,a),i&&i.some(ro)),l&&A!="textarea"||(f="value",A=="progress"&&_==null?t.removeAttribute(f):_==null||_===t[f]&&(A!="progress"||_)||wl(t,f,_,y[f],o),f="checked",k!=null&&k!=t[f]&&wl(t,f,k,y[f],o))}else y===E||l&&t.data==E||(t.data=E);return t}function mu(t,e,n,s){try{typeof t=="function"?e?e.__x=t(e)||1:s&&(s=s.__c||s.__e)&&(e=s.__x)&&(s.__x=null,typeof e=="function"?e():t(null)):t.current=e}catch(o){Ae.__e(o,n)}}function gu(t,e,n){var s,o,i,r;if(Ae.unmount&&Ae.unmount(t),!(s=t.ref)||s.current&&s.current!=t.__e||mu(s,null,e,t),s=t.__c){if(s.componentWillUnmount)try{s.componentWillUnmount()}catch(l){Ae.__e(l,e)}s.__P=s.__n=null}if(s=t.__k)for(r=0;r<s.length;r++)s[r]&&gu(s[r],e,typeof t.type!="function"||n&&!t.props.__P);!n&&(s=t.__c)&&(s=s.__z)&&(o=_l(s,i=[]))&&(s==t.__e&&i.some(ro),ro(o),ro(s)),n||ro(t.__e),t.__e=t.__c=t.__=null}function S_(t,e,n){return this.constructor(t,n)}function $u(t,e){var n,s,o,i;Ae.__&&Ae.__(t,e),e.nodeType==9&&(e=e.documentElement),s=(n=t&&32&t.__u)?null:e.__k,e.__k=tr(Is,{children:[t]}),o=[],i=[],hu(e,e.__k,s||xl,xl,e.namespaceURI,s?null:e.firstChild?pu.call(e.childNodes):null,o,s?s.__e:e.firstChild,n,i),Hp(o,e.__k,i),e.__k.props.children=null}function ao(t){function e(n){var s,o;return this.getChildContext||(s=new Set,(o={})[e.__c]=this,this.getChildContext=function(){return o},this.shouldComponentUpdate=function(i){this.props.value!=i.value&&s.forEach(function(r){r.__g|=4,cu(r)})},this.sub=function(i){s.add(i);var r=i.componentWillUnmount;i.componentWillUnmount=function(){s.delete(i),r&&r.call(i)}}),n.children}return e.__c="__cC"+zp++,e.__=t,e.Provider=(e.Consumer=function(n,s){return n.children(s)}).contextType=e,e}Ae={__e:function(t,e,n,s){for(var o,i,r;e=e.__;)if((o=e.__c)&&!(1&o.__g)){o.__g|=4;try{if((r=(i=o.constructor)&&i.getDerivedStateFromError)&&o.setState(i.getDerivedStateFromError(t)),o.componentDidCatch&&(o.componentDidCatch(t,s||{}),r=1),r&&8&o.__g)return void(o.__g|=2)}catch(l){t=l}}throw kl=0,t}},Dp=0,uu=function(t){return t!=null&&t.constructor===nr},Zo.prototype.setState=function(t,e){var n=this.__s;n&&n!=this.state||(n=this.__s=lo({},this.state)),typeof t=="function"&&(t=t(lo({},n),this.props)),t&&(lo(n,t),this.__v&&(e&&this.__k.push(e),cu(this)))},Zo.prototype.forceUpdate=function(t){this.__v&&(this.__g|=4,t&&this.__h.push(t),cu(this))},Zo.prototype.render=Is,Ls=[],kl=0,Np=function(t,e){return t.__v.__b-e.__v.__b},yl=Symbol(),Fp=/(PointerCapture)$|Capture$/i,fu=0,au={},zp=0;var Ds,st,vu,Gp,bu=Object.is,or=0,th=[],wu=[],at=Ae,Vp=at.__b,Kp=at.__r,Yp=at.diffed,Zp=at.__c,Jp=at.unmount,Qp=at.__;function Jo(t,e){at.__h&&at.__h(st,t,or||e),or=0;var n=st.__H||(st.__H={__:[],__h:[]});return t>=n.__.length&&n.__.push({}),n.__[t]}function M(t){return or=1,E_(nh,t)}function E_(t,e,n){var s=Jo(Ds++,2);if(s.t=t,!s.__c&&(s.__=[n?n(e):nh(void 0,e),function(i){var r=(s.__N||s.__)[0],l=s.t(r,i);bu(r,l)||(s.__N=[l,s.__[1]],s.__c.setState({}))}],s.__c=st,!st.__f)){st.__f=!0;var o=st.shouldComponentUpdate;st.shouldComponentUpdate=function(i,r,l){var a=this.__H;if(!a)return!0;var u=!1,f=this.props!=i;if(a.__.some(function(h){h.__N&&(u=!0,bu(h.__[0],h.__N[0])||(f=!0))}),o){var d=o.call(this,i,r,l);return u?d||f:d}return!u||f}}return s.__}function O(t,e){var n=Jo(Ds++,3);!at.__s&&_u(n.__H,e)&&(n.__P=!0,n.__=t,n.u=e,st.__H.__h.push(n))}function pe(t,e){var n=Jo(Ds++,4);!at.__s&&_u(n.__H,e)&&(n.__P=!1,n.__=t,n.u=e,st.__h.push(n))}function P(t){return or=5,de(function(){return{current:t}},[])}function de(t,e){var n=Jo(Ds++,7);return _u(n.__H,e)&&(n.__=t(),n.__H=e),n.__}function co(t,e){return or=8,de(function(){return t},e)}function ke(t){var e=st.context[t.__c],n=Jo(Ds++,9);return n.c=t,e?(n.__==null&&(n.__=!0,e.sub(st)),e.props.value):t.__}function le(){var t=Jo(Ds++,11);if(!t.__){for(var e=st.__v;!e.__m&&e.__;)e=e.__;var n=e.__m||(e.__m=[0,0]);t.__="P"+n[0]+"-"+n[1]++}return t.__}function C_(){var t;do{for(;t=wu.shift();)try{sr(t)}catch(n){at.__e(n,{__:(t=t.__P)&&t.__v})}for(;t=th.shift();){var e=t.__H;if(t.__P&&e)try{e.__h.some(sr),e.__h.some(yu),e.__h=[]}catch(n){e.__h=[],at.__e(n,t.__v)}}}while(wu.length)}at.__b=function(t){st=null,Vp&&Vp(t)},at.__=function(t,e){t&&e.__k&&e.__k.__m&&(t.__m=e.__k.__m),Qp&&Qp(t,e)},at.__r=function(t){Kp&&Kp(t),Ds=0;var e=(st=t.__c).__H;e&&(vu==st?st.__h=[]:(e.__h.some(sr),e.__h.some(yu),Ds=0),e.__h=[],e.__.some(function(n){n.__N&&(n.__=n.__N),n.u=n.__N=void 0})),vu=st},at.diffed=function(t){Yp&&Yp(t);var e=t.__c;e&&e.__H&&(e.__H.__h.length&&eh(th.push(e)),e.__H.__.some(function(n){n.u&&(n.__H=n.u)})),vu=st=null},at.__c=function(t,e){e.some(function(n){try{n.__h.some(sr),n.__h=n.__h.filter(function(s){return!s.__||yu(s)})}catch(s){n.__h=[function(){throw s}]}}),Zp&&Zp(t,e)},at.unmount=function(t){Jp&&Jp(t);var e,n,s=t.__c;s&&s.__H&&(s.__H.__.some(function(o){try{if(o.__P&&o.__c){if(n===void 0){for(n=t.__;n&&(!n.__c||!n.__c.__P);)n=n.__;n=n&&n.__c}o.__P=n,eh(wu.push(o))}else sr(o)}catch(i){e=i}}),s.__H=void 0,e&&at.__e(e,s.__v))};var Xp=typeof requestAnimationFrame=="function";function T_(t){var e,n=function(){clearTimeout(s),Xp&&cancelAnimationFrame(e),setTimeout(t)},s=setTimeout(n,35);Xp&&(e=requestAnimationFrame(n))}function eh(t){t!=1&&Gp==at.requestAnimationFrame||((Gp=at.requestAnimationFrame)||T_)(C_)}function sr(t){var e=st,n=t.__c;typeof n=="function"&&(t.__c=void 0,n()),st=e}function yu(t){var e=st;t.__c=t.__(),st=e}function _u(t,e){return!t||t.length!=e.length||e.some(function(n,s){return!bu(n,t[s])})}function nh(t,e){return typeof e=="function"?e(t):e}var O_=Symbol.for("preact-signals");function Ol(){if(cs>1){cs--;return}let t,e=!1;for((function(){let n=El;for(El=void 0;n!==void 0;){let s=n.S;if(s.v===n.v)for(let o=s.t;o!==void 0;o=o.x)o.i===n.i&&(o.i=s.i);n=n.o}})();rr!==void 0;){let n=rr;for(rr=void 0,Cl++;n!==void 0;){let s=n.u;if(n.u=void 0,n.f&=-3,!(8&n.f)&&oh(n))try{n.c()}catch(o){e||(t=o,e=!0)}n=s}}if(Cl=0,cs--,e)throw t}function me(t){if(cs>0)return t();ku=++A_,cs++;try{return t()}finally{Ol()}}var Xe,ir,rr;function gn(t){let e=Xe,n=ir;Xe=void 0,ir=void 0;try{return t()}finally{Xe=e,ir=n}}var El,cs=0,Cl=0,A_=0,ku=0,Tl=0;function sh(t){if(Xe===void 0)return;let e=t.n;if(e===void 0||e.t!==Xe)return e={i:0,S:t,p:Xe.s,n:void 0,t:Xe,e:void 0,x:void 0,r:e},Xe.s!==void 0&&(Xe.s.n=e),Xe.s=e,t.n=e,32&Xe.f&&t.S(e),e;if(e.i===-1)return e.i=0,e.n!==void 0&&(e.n.p=e.p,e.p!==void 0&&(e.p.n=e.n),e.p=Xe.s,e.n=void 0,Xe.s.n=e,Xe.s=e),e}function mt(t,e){this.v=t,this.i=0,this.n=void 0,this.t=void 0,this.l=0,this.W=e?.watched,this.Z=e?.unwatched,this.name=e?.name}mt.prototype.brand=O_;mt.prototype.h=function(){return!0};mt.prototype.S=function(t){let e=this.t;e!==t&&t.e===void 0&&(t.x=e,this.t=t,e!==void 0?e.e=t:gn(()=>{var n;(n=this.W)==null||n.call(this)}))};mt.prototype.U=function(t){if(this.t!==void 0){let e=t.e,n=t.x;e!==void 0&&(e.x=n,t.e=void 0),n!==void 0&&(n.e=e,t.x=void 0),t===this.t&&(this.t=n,n===void 0&&gn(()=>{var s;(s=this.Z)==null||s.call(this)}))}};mt.prototype.subscribe=function(t){return We(()=>{let e=this.value;gn(()=>t(e))},{name:"sub"})};mt.prototype.valueOf=function(){return this.value};mt.prototype.toString=function(){return this.value+""};mt.prototype.toJSON=function(){return this.value};mt.prototype.peek=function(){return gn(()=>this.value)};Object.defineProperty(mt.prototype,"value",{get(){let t=sh(this);return t!==void 0&&(t.i=this.i),this.v},set(t){if(t!==this.v){if(Cl>100)throw new Error("Cycle detected");(function(e){cs!==0&&Cl===0&&e.l!==ku&&(e.l=ku,El={S:e,v:e.v,i:e.i,o:El})})(this),this.v=t,this.i++,Tl++,cs++;try{for(let e=this.t;e!==void 0;e=e.x)e.t.N()}finally{Ol()}}}});function C(t,e){return new mt(t,e)}function oh(t){for(let e=t.s;e!==void 0;e=e.n)if(e.S.i!==e.i||!e.S.h()||e.S.i!==e.i)return!0;return!1}function ih(t){for(let e=t.s;e!==void 0;e=e.n){let n=e.S.n;if(n!==void 0&&(e.r=n),e.S.n=e,e.i=-1,e.n===void 0){t.s=e;break}}}function rh(t){let e,n=t.s;for(;n!==void 0;){let s=n.p;n.i===-1?(n.S.U(n),s!==void 0&&(s.n=n.n),n.n!==void 0&&(n.n.p=s)):e=n,n.S.n=n.r,n.r!==void 0&&(n.r=void 0),n=s}t.s=e}function uo(t,e){mt.call(this,void 0,e),this.x=t,this.s=void 0,this.g=Tl-1,this.f=4}uo.prototype=new mt;uo.prototype.h=function(){if(this.f&=-3,1&this.f)return!1;if((36&this.f)==32||(this.f&=-5,this.g===Tl))return!0;if(this.g=Tl,this.f|=1,this.i>0&&!oh(this))return this.f&=-2,!0;let t=Xe;try{ih(this),Xe=this;let e=this.x();(16&this.f||this.v!==e||this.i===0)&&(this.v=e,this.f&=-17,this.i++)}catch(e){this.v=e,this.f|=16,this.i++}return Xe=t,rh(this),this.f&=-2,!0};uo.prototype.S=function(t){if(this.t===void 0){this.f|=36;for(let e=this.s;e!==void 0;e=e.n)e.S.S(e)}mt.prototype.S.call(this,t)};uo.prototype.U=function(t){if(this.t!==void 0&&(mt.prototype.U.call(this,t),this.t===void 0)){this.f&=-33;for(let e=this.s;e!==void 0;e=e.n)e.S.U(e)}};uo.prototype.N=function(){if(!(2&this.f)){this.f|=6;for(let t=this.t;t!==void 0;t=t.x)t.t.N()}};Object.defineProperty(uo.prototype,"value",{get(){if(1&this.f)throw new Error("Cycle detected");let t=sh(this);if(this.h(),t!==void 0&&(t.i=this.i),16&this.f)throw this.v;return this.v}});function gt(t,e){return new uo(t,e)}function lh(t){let e=t.j;if(t.j=void 0,typeof e=="function"){cs++;let n=Xe;Xe=void 0;try{e()}catch(s){throw t.f&=-2,t.f|=8,xu(t),s}finally{Xe=n,Ol()}}}function xu(t){for(let e=t.s;e!==void 0;e=e.n)e.S.U(e);t.x=void 0,t.s=void 0,lh(t)}function M_(t){if(Xe!==this)throw new Error("Out-of-order effect");rh(this),Xe=t,this.f&=-2;try{8&this.f&&xu(this)}finally{Ol()}}function Qo(t,e){this.x=t,this.j=void 0,this.s=void 0,this.u=void 0,this.f=32,this.name=e?.name,ir&&ir.push(this)}Qo.prototype.c=function(){let t=this.S();try{if(8&this.f||this.x===void 0)return;let e=this.x();typeof e=="function"&&(this.j=e)}finally{t()}};Qo.prototype.S=function(){if(1&this.f)throw new Error("Cycle detected");this.f|=1,this.f&=-9,lh(this),ih(this),cs++;let t=Xe;return Xe=this,M_.bind(this,t)};Qo.prototype.N=function(){2&this.f||(this.f|=2,this.u=rr,rr=this)};Qo.prototype.d=function(){this.f|=8,1&this.f||xu(this)};Qo.prototype.dispose=function(){this.d()};function We(t,e){let n=new Qo(t,e);try{n.c()}catch(o){throw n.d(),o}let s=n.d.bind(n);return s[Symbol.dispose]=s,s}var R_=typeof window<"u"&&!!window.__PREACT_SIGNALS_DEVTOOLS__,Su,Xo,Al,ah=[],ch=[];We(function(){Su=this.N})();function ei(t,e){Ae[t]=e.bind(null,Ae[t]||(()=>{}))}function lr(t){if(Al){let e=Al;Al=void 0,e()}Al=t&&t.S()}function uh({data:t}){let e=we(t);e.name="ReactiveDom",e.value=t;let[n,s]=de(()=>{let o=this,i=this.__v;for(;i=i.__;)if(i.__c){i.__c.__$f|=4;break}let r=gt(()=>{let f=e.value.value;return f===0?0:f===!0?"":f||""}),l=gt(()=>!Array.isArray(r.value)&&!uu(r.value)),a=We(function(){if(this.N=fh,l.value){let f=r.value;o.__v&&o.__v.__e&&o.__v.__e.nodeType===3&&(o.__v.__e.data=f)}}),u=this.__$u.d;return this.__$u.d=function(){a(),u.call(this)},[l,r]},[]);return n.value?s.peek():s.value}uh.displayName="ReactiveTextNode";Object.defineProperties(mt.prototype,{constructor:{configurable:!0,value:Jn(Is,null).constructor},type:{configurable:!0,value:uh},props:{configurable:!0,get(){let t=this;return{data:{get value(){return t.value}}}}},__b:{configurable:!0,value:1}});ei("__b",(t,e)=>{if(lr(),Xo=void 0,typeof e.type=="string"){let n,s=e.props;for(let o in s){if(o==="children")continue;let i=s[o];i instanceof mt&&(n||(e.__np=n={}),n[o]=i,s[o]=i.peek())}}t(e)});ei("__r",(t,e)=>{if(t(e),e.type!==Is){lr();let n,s=e.__c;s&&(s.__$f&=-2,n=s.__$u,n===void 0&&(s.__$u=n=(function(o,i){let r;return We(function(){r=this},{name:i}),r.c=o,r})((function(o){return function(){var i;R_&&((i=this.y)==null||i.call(this)),o.__$f|=1,o.setState({})}})(s),typeof e.type=="function"?e.type.displayName||e.type.name:""))),Xo=s,lr(n)}});ei("__e",(t,e,n,s)=>{lr(),Xo=void 0,t(e,n,s)});ei("diffed",(t,e)=>{lr(),Xo=void 0;let n;if(typeof e.type=="string"&&(n=e.__e)){let s=e.__np,o=e.props,i=n.U;if(i)for(let r in i){let l=i[r];l===void 0||s&&r in s||(l.d(),i[r]=void 0)}if(s){i||(i={},n.U=i);for(let r in s){let l=i[r],a=s[r];l===void 0?(l=L_(n,r,a,o),i[r]=l):l.o(a,o)}}}t(e)});function L_(t,e,n,s){let o=e in t&&t.ownerSVGElement===void 0,i=C(n);return{o:(r,l)=>{i.value=r,s=l},d:We(function(){this.N=fh;let r=i.value.value;s[e]!==r&&(s[e]=r,o?t[e]=r:r!=null&&(r!==!1||e[4]==="-")?t.setAttribute(e,r):t.removeAttribute(e))})}}ei("unmount",(t,e)=>{if(typeof e.type=="string"){let n=e.__e;if(n){let o=n.U;if(o){n.U=void 0;for(let i in o){let r=o[i];r&&r.d()}}}let s=e.__np;if(s){let o=e.props;for(let i in s)o[i]=s[i]}e.__np=void 0}else{let n=e.__c;if(n){n.__$f|=8;let s=n.__$u;s&&(n.__$u=void 0,s.d())}}t(e)});ei("__h",(t,e,n,s)=>{s<3&&(e.__$f|=2),t(e,n,s)});Zo.prototype.shouldComponentUpdate=function(t,e){if(this.__R)return!0;let n=this.__$u,s=n&&n.s!==void 0;for(let o in e)return!0;if(this.__f||typeof this.u=="boolean"&&this.u===!0){let o=2&this.__$f;if(!(s||o||4&this.__$f)||1&this.__$f)return!0}else if(!(s||4&this.__$f)||3&this.__$f)return!0;for(let o in t)if(o!=="__source"&&t[o]!==this.props[o])return!0;for(let o in this.props)if(!(o in t))return!0;return!1};function we(t,e){return de(()=>C(t,e),[])}function fo(t,e){let n=P(t);return n.current=t,Xo.__$f|=4,de(()=>gt(()=>n.current(),e),[])}var P_=typeof requestAnimationFrame>"u"?setTimeout:function(t){let e=()=>{clearTimeout(n),cancelAnimationFrame(s),t()},n=setTimeout(e,35),s=requestAnimationFrame(e)},I_=t=>{queueMicrotask(()=>{queueMicrotask(t)})};function D_(){me(()=>{let t;for(;t=ah.shift();)Su.call(t)})}function N_(){ah.push(this)===1&&(Ae.requestAnimationFrame||P_)(D_)}function F_(){me(()=>{let t;for(;t=ch.shift();)Su.call(t)})}function fh(){ch.push(this)===1&&(Ae.requestAnimationFrame||I_)(F_)}function ar(t,e){let n=P(t);n.current=t;let s=Xo;O(()=>We(function(){if(this.N=N_,!(s&&8&s.__$f))return n.current()},e),[])}var ph=function(t,e,n,s){var o;e[0]=0;for(var i=1;i<e.length;i++){var r=e[i++],l=e[i]?(e[0]|=r?1:2,n[e[i++]]):e[++i];r===3?s[0]=l:r===4?s[1]=Object.assign(s[1]||{},l):r===5?(s[1]=s[1]||{})[e[++i]]=l:r===6?s[1][e[++i]]+=l+"":r?(o=t.apply(l,ph(t,l,n,["",null])),s.push(o),l[0]?e[0]|=2:(e[i-2]=0,e[i]=o)):s.push(l)}return s},dh=new Map;function hh(t){var e=dh.get(this);return e||(e=new Map,dh.set(this,e)),(e=ph(this,e.get(t)||(e.set(t,e=(function(n){for(var s,o,i=1,r="",l="",a=[0],u=function(h){i===1&&(h||(r=r.replace(/^\s*\n\s*|\s*\n\s*$/g,"")))?a.push(0,h,r):i===3&&(h||r)?(a.push(3,h,r),i=2):i===2&&r==="..."&&h?a.push(4,h,0):i===2&&r&&!h?a.push(5,0,!0,r):i>=5&&((r||!h&&i===5)&&(a.push(i,0,r,o),i=6),h&&(a.push(i,h,0,o),i=6)),r=""},f=0;f<n.length;f++){f&&(i===1&&u(),u(f));for(var d=0;d<n[f].length;d++)s=n[f][d],i===1?s==="<"?(u(),a=[a],i=3):r+=s:i===4?r==="--"&&s===">"?(i=1,r=""):r=s+r[0]:l?s===l?l="":r+=s:s==='"'||s==="'"?l=s:s===">"?(u(),i=1):i&&(s==="="?(i=5,o=r,r=""):s==="/"&&(i<5||n[f][d+1]===">")?(u(),i===3&&(a=a[0]),i=a,(a=a[0]).push(2,0,i),i=0):s===" "||s==="	"||s===`
`||s==="\r"?(u(),i=2):r+=s),i===3&&r==="!--"&&(i=4,a=a[0])}return u(),a})(t)),e),arguments,[])).length>1?e:e[0]}var c=hh.bind(Jn);var ti=class{#e=null;#t;#n;constructor(e,n){this.#t=e,this.#n=n,this.heard()}heard(){clearTimeout(this.#e),this.#e=setTimeout(this.#n,this.#t)}stop(){clearTimeout(this.#e)}};var tn=C(!1),Ln=class extends Error{constructor(e,n,s=null){super(n.detail||n.title||`The server responded with status ${e}.`),this.name="Problem",this.status=e,this.code=n.code??"unknown",this.title=n.title??"",this.detail=n.detail??"",this.body=n,this.retryAfterS=s}get mayPass(){return this.status<400||this.status>=500||[401,408,429].includes(this.status)}},z_=3e4,W_=300,gh=!1,$h=()=>gh,vh=0;function us(){return Date.now()+vh}async function Wt(t,e,{body:n,headers:s={},signal:o,raw:i}={}){let r={method:t,headers:{...s},signal:o,credentials:"same-origin",cache:"no-store"};i!==void 0?r.body=i:n!==void 0&&(r.headers["Content-Type"]="application/json",r.body=JSON.stringify(n));let l=await bh(e,r),a=Date.parse(l.headers.get("Date")??"")-Date.now();if(Number.isNaN(a)||(vh=Math.abs(a)>2e3?a:0),l.ok)return gh=!0,l;let u=Number.parseInt(l.headers.get("Retry-After")??"",10),f=new Ln(l.status,await q_(l),Number.isNaN(u)?null:u);throw l.status===401&&(tn.value=!0),f}async function bh(t,e,n=!1){try{return await fetch(t,e)}catch(s){if(e.signal?.aborted)throw s;if(e.method==="GET"&&!n)return await new Promise(o=>setTimeout(o,W_)),bh(t,e,!0);throw new Ln(0,wh)}}var wh={code:"unreachable",detail:"The server cannot be reached."},B_={code:"timeout",detail:"The server took too long to respond."};async function q_(t){try{return await t.json()}catch{return{title:t.statusText}}}async function Qn(t,e,n){if(t!=="GET")return mh(await Wt(t,e,n));let s=new AbortController,o=new ti(z_,()=>s.abort(new Ln(0,B_)));try{let{body:i}=await Wt(t,e,{...n,signal:s.signal});return await mh(new Response(i.pipeThrough(U_(o))))}catch(i){throw s.signal.aborted?s.signal.reason:i}finally{o.stop()}}function U_(t){return new TransformStream({transform(e,n){t.heard(),n.enqueue(e)}})}async function mh(t){if(t.status===204)return null;try{return await t.json()}catch(e){throw e instanceof TypeError?new Ln(0,wh):e}}var W=(t,e)=>Qn("GET",t,e),Me=(t,e,n)=>Qn("POST",t,{...n,body:e??{}}),$n=(t,e)=>Qn("PATCH",t,{body:e}),Vt=t=>Qn("DELETE",t);function I(t,...e){return["/v1/sessions",t,...e].map((n,s)=>s?encodeURIComponent(n):n).join("/")}function ni(t,e){return`${I(t,"files")}/${e.split("/").map(encodeURIComponent).join("/")}`}var cr=C([]),j_=0,H_=8e3;function ve(t,e="info"){let n=++j_;cr.value=[...cr.value.slice(-4),{id:n,kind:e,text:t}],setTimeout(()=>yh(n),H_)}var $t=t=>ve(t.message,"error");function yh(t){cr.value=cr.value.filter(e=>e.id!==t)}function _h(){return c`<div class="notes" role="status" aria-live="polite">
    ${cr.value.map(({id:t,kind:e,text:n})=>c`<p key=${t} class="note ${e}">
        <span>${n}</span>
        <button class="plain" aria-label="Dismiss" onClick=${()=>yh(t)}>×</button>
      </p>`)}
  </div>`}function q({onClick:t,children:e,disabled:n=!1,kind:s="",...o}){let[i,r]=M(!1),l=P(!0);O(()=>()=>l.current=!1,[]);async function a(u){if(!i){r(!0);try{await t(u)}catch(f){$t(f)}finally{l.current&&r(!1)}}}return c`<button
    type="button"
    class=${s}
    disabled=${n}
    aria-disabled=${i?"true":void 0}
    aria-busy=${i}
    onClick=${a}
    ...${o}
  >
    ${e}
  </button>`}function et({title:t,onClose:e,children:n,wide:s=!1,staysOpen:o=!1}){let i=P(null);pe(()=>{let f=i.current;return f.showModal(),()=>f.close()},[]);let r=f=>{f.preventDefault(),e()},l=P(!1);return c`<dialog
    ref=${i}
    class=${s?"wide":""}
    aria-label=${t}
    onCancel=${r}
    onPointerDown=${({target:f})=>l.current=f===i.current}
    onClick=${({target:f})=>!o&&l.current&&f===i.current&&e()}
  >
    <div class="dialog-body">
      <header>
        <h2>${t}</h2>
        <button class="plain" aria-label="Close" onClick=${e}>×</button>
      </header>
      ${n}
    </div>
  </dialog>`}function nn({title:t,text:e,verb:n,onConfirm:s,onClose:o,dismiss:i="Cancel"}){return c`<${et} title=${t} onClose=${o}>
    <p>${e}</p>
    <footer>
      <button onClick=${o}>${i}</button>
      <${q} kind="danger" onClick=${async()=>(await s(),o())}>${n}<//>
    </footer>
  <//>`}var vn=C(us());setInterval(()=>{document.visibilityState==="visible"&&(vn.value=us())},1e3);function Ot({time:t}){return c`<time datetime=${t} title=${ze(t)}>${Mp(t,vn.value)}</time>`}function xe({kind:t,children:e}){return c`<span class="badge ${t}">${e}</span>`}function si({session:t}){let{status:e,outcome:n}=t;return e==="awaiting_approval"?c`<${xe} kind="waiting">awaiting approval<//>`:e==="awaiting_client"?c`<${xe} kind="waiting">awaiting client<//>`:e==="running"?c`<${xe} kind="running">running<//>`:n===null?c`<${xe} kind="idle">idle<//>`:c`<${xe} kind=${Eu(n)}>${n.replace("_"," ")}<//>`}var Eu=t=>({completed:"good",failed:"bad"})[t]??"warn";function ge({problem:t,onRetry:e}){return c`<div class="failure" role="alert">
    <p>${t.message}</p>
    <p class="dim">${t.code}</p>
    ${e&&c`<${q} onClick=${e}>Retry<//>`}
  </div>`}var G_={attach:"M13 7.5 8 12.4a3 3 0 0 1-4.3-4.3l5.2-5.2a2 2 0 0 1 2.9 2.9L6.7 10.9a1 1 0 0 1-1.4-1.4L10 4.8",check:"m3 8.5 3.5 3.5L13 4.5",copy:"M6 6V3.5A1.5 1.5 0 0 1 7.5 2h5A1.5 1.5 0 0 1 14 3.5v5a1.5 1.5 0 0 1-1.5 1.5H10M3.5 6h5A1.5 1.5 0 0 1 10 7.5v5A1.5 1.5 0 0 1 8.5 14h-5A1.5 1.5 0 0 1 2 12.5v-5A1.5 1.5 0 0 1 3.5 6Z",down:"m4 6 4 4 4-4",edit:"m9.5 4 2.5 2.5M3 13l.7-3.2L11 2.5a1 1 0 0 1 1.4 0l1.1 1.1a1 1 0 0 1 0 1.4L6.2 12.3Z",file:"M4 1.8h5l3.5 3.5v8.9H4ZM9 2v3.5h3.3",folder:"M1.8 12.8V3.7h4.4l1.6 1.8h6.4v7.3Z",mark:"M2 3h12M2 6.4h7M2 9.8h12M2 13.2h8",memory:"M4 2h8v12l-4-3-4 3Z",plan:"M6.5 4H14M6.5 8H14M6.5 12H14M2 4h1.5M2 8h1.5M2 12h1.5",right:"m6 4 4 4-4 4",search:"M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.6-1.4L14 14",terminal:"m3 4.5 3.5 3.5L3 11.5M8.5 12H13",tool:"M6 2v3.5M10 2v3.5M3.5 5.5h9V8a4.5 4.5 0 0 1-9 0ZM8 12.5V14"};function Xn({name:t}){let e=Jn("path",{d:G_[t]});return Jn("svg",{class:"icon",viewBox:"0 0 16 16",width:16,height:16,"aria-hidden":"true"},e)}function Ml({label:t,text:e,onText:n,items:s,empty:o}){let i=le(),r=P(null),[l,a]=M(0),u=Math.min(l,s.length-1);O(()=>a(0),[e]),O(()=>r.current?.children[u]?.scrollIntoView({block:"nearest"}),[u,s]);let f=d=>{if(d.isComposing)return;let h={ArrowDown:u+1,ArrowUp:u-1}[d.key];if(h!==void 0)a((h+s.length)%(s.length||1));else if(d.key==="Enter")s[u]?.choose();else return;d.preventDefault()};return c`<div class="combobox">
    <input
      type="text"
      role="combobox"
      autofocus
      aria-label=${t}
      placeholder=${t}
      maxlength="500"
      autocomplete="off"
      spellcheck=${!1}
      aria-expanded=${s.length>0}
      aria-controls=${i}
      aria-activedescendant=${u>=0?`${i}-${u}`:void 0}
      value=${e}
      onInput=${d=>n(d.currentTarget.value)}
      onKeyDown=${f}
    />
    <ul ref=${r} id=${i} role="listbox" aria-label="Results">
      ${s.map(({key:d,content:h,choose:g},v)=>c`<li
          key=${d}
          id="${i}-${v}"
          role="option"
          aria-selected=${v===u}
          onClick=${g}
          onPointerMove=${()=>a(v)}
        >
          ${h}
        </li>`)}
    </ul>
    <p class="dim" role="status">${s.length===0?o:""}</p>
  </div>`}function Rl(t,e,n){let[s,o]=M([null,null,null]);return O(()=>{let i=!0,r=u=>i&&o(u),a=setTimeout(()=>e(t).then(u=>r([u,null,t]),u=>r([null,u,t])),t?n:0);return()=>{i=!1,clearTimeout(a)}},[t]),s}var fs=["conversation","context","files","changes","usage","events"],Be=C(Cu(location.hash));addEventListener("hashchange",()=>{Be.value=Cu(location.hash)});function Cu(t){let[e,n]=t.replace(/^#\/?/,"").split(/\?(.*)/s),s=Object.fromEntries(new URLSearchParams(n)),[o,i,r]=e.split("/").map(V_);return o==="sessions"&&i?{page:"session",id:i,view:fs.includes(r)?r:fs[0],query:s}:{page:["usage","settings"].includes(o)?o:"sessions",query:s}}function be(t,e=fs[0],n={}){return`#/sessions/${encodeURIComponent(t)}${e===fs[0]?"":`/${e}`}${Ll(n)}`}function Pn(t){let e=Be.peek().query,n=Object.fromEntries(Object.entries({...e,...t}).filter(([,o])=>o));if(Ll(n)===Ll(e))return;let s=`${location.hash.split("?",1)[0]||"#/"}${Ll(n)}`;history.replaceState(history.state,"",s),Be.value=Cu(s)}function ot(t){location.hash=t}function Ll(t){let e=new URLSearchParams(t).toString();return e&&`?${e}`}function V_(t){try{return decodeURIComponent(t)}catch{return t}}function ds(t,e,n){let s=C(K_(`palimpsest-${t}`,e,n));return We(()=>Z_(`palimpsest-${t}`,s.value,e)),s}function K_(t,e,n){try{let s=Y_(localStorage.getItem(t));return s!==null&&n(s)?s:e}catch{return e}}function Y_(t){try{return JSON.parse(t)}catch{return t}}function Z_(t,e,n){try{e===n?localStorage.removeItem(t):localStorage.setItem(t,JSON.stringify(e))}catch{}}var ur=["system","light","dark"],ps=ds("theme","system",t=>ur.includes(t)),Tu=matchMedia("(prefers-color-scheme: dark)"),kh=C(Tu.matches);Tu.addEventListener("change",()=>kh.value=Tu.matches);var xh=gt(()=>ps.value==="system"?kh.value:ps.value==="dark");We(()=>{let{dataset:t}=document.documentElement;ps.value==="system"?delete t.theme:t.theme=ps.value});function Sh(t){let e=document.createElement("i");e.style.color=`var(${t})`,document.body.append(e);let n=getComputedStyle(e).color;return e.remove(),n}async function Ch(t,e,n){await Ou("PUT",t,e,{type:"application/octet-stream",onProgress:n})}function Ou(t,e,n,{type:s,onProgress:o,signal:i}){return new Promise((r,l)=>{let a=new XMLHttpRequest;a.open(t,e),s&&a.setRequestHeader("Content-Type",s),a.upload.onprogress=({loaded:f,total:d})=>o(d?f/d:1),a.onload=()=>a.status>=200&&a.status<300?r(Eh(a)):(a.status===401&&(tn.value=!0),l(new Ln(a.status,Eh(a)??{title:a.statusText})));let u="Upload failed: the server was not reached or refused the size, or the browser could not read a file.";a.onerror=()=>l(new Ln(0,{code:"unreachable",detail:u})),a.onabort=()=>l(i.reason),i?.addEventListener("abort",()=>a.abort()),a.send(n)})}function Eh(t){try{return JSON.parse(t.responseText)}catch{return null}}function oi(t=Date.now()){let e=crypto.getRandomValues(new Uint8Array(16));for(let s=0;s<6;s+=1)e[s]=Math.floor(t/2**(8*(5-s)))%256;return e[6]=e[6]&15|112,e[8]=e[8]&63|128,Array.from(e,s=>s.toString(16).padStart(2,"0")).join("").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/,"$1-$2-$3-$4-$5")}var Th=["image/png","image/jpeg","image/gif","image/webp"],J_=[["image/png",/^\x89PNG\r\n\x1a\n/],["image/jpeg",/^\xff\xd8\xff/],["image/gif",/^GIF8[79]a/],["image/webp",/^RIFF[^]{4}WEBP/]];async function Oh(t){let e=String.fromCharCode(...new Uint8Array(await t.slice(0,12).arrayBuffer()));return J_.find(([,n])=>n.test(e))?.[0]??null}function Pl(t){return new Promise((e,n)=>{let s=new FileReader;s.onload=()=>e(s.result.slice(s.result.indexOf(",")+1)),s.onerror=()=>n(s.error),s.readAsDataURL(t)})}var ii=class{items=C([]);problem=C("");async add(e){let n=[];for(let s of e)n.push(await this.#e(s).catch(()=>`${fr(s)} could not be read.`));this.problem.value=n.filter(Boolean).join(" ")}async#e(e){let n=await Oh(e);if(n===null)return`${fr(e)} is not a PNG, JPEG, GIF or WebP image.`;if(e.size>5242880)return`${fr(e)} has ${Se(e.size)}; an image can have at most ${Se(5242880)}.`;let s=this.items.value;return s.length===20?`${fr(e)} was left out: a message can have ${20} images.`:s.reduce((o,i)=>o+i.file.size,e.size)>20971520?`${fr(e)} was left out: a message can have ${Se(20971520)} of images.`:(this.items.value=[...s,{key:oi(),name:L(e.name),mediaType:n,file:e}],null)}remove(...e){this.items.value=this.items.peek().filter(({key:n})=>!e.includes(n)),this.problem.value=""}clear(){this.remove(...this.items.value.map(({key:e})=>e))}},fr=({name:t})=>`“${L(t)}”`;async function Il(t,e){if(e.length===0)return t;let n=t.trim()?[{type:"text",text:t}]:[];for(let{name:s,mediaType:o,file:i}of e){let r=await Pl(i).catch(()=>{throw new Error(`“${s}” can no longer be read. Remove it, or attach it again.`)});n.push({type:"image",media_type:o,data:r})}return n}var Au={from:"",gitUrl:"",gitRef:"",gitDepth:"",gitCredential:"",secrets:[],output:""},Q_=/^[A-Z_][A-Z0-9_]{0,99}$/,X_=0,Lh=()=>({key:X_+=1,name:"",value:""}),ek=({name:t,value:e})=>t.trim()!==""||e!=="",dr=({secrets:t})=>[...new Set(t.map(({name:e})=>e.trim()).filter(Boolean))];function Mu(t,e=[]){return Q_.test(t.trim())?e.includes(t.trim())?"This name is used above.":null:"Use capitals, digits and underscores, as in API_TOKEN."}var Ru=t=>t===""?"Enter a value.":null;function Ph(t,{secrets:e}){let n=e.find(s=>t===`secrets.${s.name.trim()}`);return n?`secrets.${n.key}.value`:null}function Ih({secrets:t},e){let n={};for(let{key:s,name:o,value:i}of t.filter(ek)){let r={name:Mu(o,Object.keys(n)),value:Ru(i)};for(let[l,a]of Object.entries(r))a&&(e[`secrets.${s}.${l}`]=a);n[o.trim()]=i}return Object.keys(n).length?n:void 0}function Dh(t,e){let{from:n,gitUrl:s,gitRef:o,gitDepth:i,gitCredential:r}=t;if(n!=="git")return;s.trim()||(e.gitUrl="Enter the repository's URL.");let l=i.trim()===""?void 0:Number(i);l!==void 0&&!(Number.isInteger(l)&&l>0)&&(e.gitDepth="Enter a number of commits.");let a=dr(t).includes(r)?r:void 0;return{git:{url:s.trim(),ref:o.trim()||void 0,depth:l,credential:a}}}function Nh({output:t},e){if(t.trim())try{return{schema:JSON.parse(t)}}catch(n){e.output=`This is not valid JSON: ${n.message}.`;return}}var mr={model:"",otherModel:"",compaction:"",sandbox:"",network:"",maxSteps:"",maxSeconds:"",maxCost:"",maxTokens:"",approval:"",tools:[],commands:"",timeout:""},Fh={task:"",title:"",systemPrompt:"",...mr,...Au},tk=t=>Object.entries(mr).every(([e,n])=>Array.isArray(n)?Array.isArray(t[e]):typeof t[e]==typeof n),Dl=ds("new-session",null,tk),zh=t=>Object.fromEntries(Object.keys(mr).map(e=>[e,t[e]])),Lu=({model:t,otherModel:e,...n})=>JSON.stringify(zh({...n,model:"",otherModel:""}))!==JSON.stringify(mr),ri="other",bn=C({...Fh,...Dl.peek()}),hs=C(!1),po=new ii;function ho(t){bn.value={...bn.value,...t}}function Wh(){Dl.value=zh(bn.peek()),bn.value={...Fh,...Dl.peek()},po.clear()}function Bh(){Dl.value=null,ho(mr)}function qh(t){let{model:e}=bn.peek();e&&e!==ri&&!t.some(({name:n})=>n===e)&&ho({model:""})}var nk={task:"task",title:"title",model:"model",compaction:"compaction",sandbox:"sandbox","sandbox.network":"network","limits.max_steps":"maxSteps","limits.max_seconds":"maxSeconds","limits.max_cost_usd":"maxCost","limits.max_tokens":"maxTokens",approval:"approval","approval.policy.tools":"tools","approval.policy.commands":"commands","approval.timeout_s":"timeout",system_prompt:"systemPrompt",output:"output",secrets:"secrets",archive:"files","source.git":"gitUrl","source.git.ref":"gitRef","source.git.depth":"gitDepth","source.git.credential":"gitCredential"},sk={unknown_model:"model",missing_api_key:"model",unknown_tool:"tools",approval_not_allowed:"approval",sandbox_not_allowed:"sandbox",invalid_archive:"files",archive_too_large:"files",workspace_full:"files",invalid_source:"gitUrl",source_not_allowed:"gitUrl",unknown_secret:"gitCredential",secret_key_missing:"secrets",too_many_images:"task",images_too_large:"task",invalid_image_data:"task",image_type_mismatch:"task",image_too_large:"task",session_images_full:"task"};function Uh(t){let e={};t.task.trim()||(e.task="Enter a task.");let n=t.model===ri?t.otherModel.trim():t.model;t.model===ri&&!n&&(e.model="Enter the model name as provider/model.");let s={task:t.task,title:t.title.trim(),model:n,system_prompt:t.systemPrompt.trim()&&t.systemPrompt,sandbox:ok(t),compaction:t.compaction,limits:ik(t,e),approval:rk(t,e),output:Nh(t,e),source:Dh(t,e),secrets:Ih(t,e)};return{body:Pu(s),errors:e}}function Pu(t){let e=Object.entries(t).filter(([,n])=>n!==""&&n!==void 0);return e.length?Object.fromEntries(e):void 0}function ok({sandbox:t,network:e}){return!t||!e?t:{kind:t,network:e==="on"}}function ik(t,e){return Pu({max_steps:hr(t,"maxSteps",e),max_seconds:hr(t,"maxSeconds",e),max_cost_usd:hr(t,"maxCost",e),max_tokens:hr(t,"maxTokens",e)})}function rk(t,e){let n=hr(t,"timeout",e),s=t.commands.split(`
`).filter(i=>i.trim()),o={tools:t.tools,commands:s};return Pu({policy:t.approval==="some"?o:t.approval,timeout_s:n})}function hr(t,e,n){let s=t[e].trim().replaceAll(",","");if(s==="")return;if(s.toLowerCase()==="none")return null;let o=Number(s);return Number.isFinite(o)||(n[e]="Enter a number."),o}function Nl(t,e=Au){let n=t.body.errors??[{field:t.body.field??"",message:t.message}],s={},o=[];for(let{field:i,message:r}of n){let l=Ph(i,e)??lk(i)??sk[t.code];l&&!s[l]?s[l]=r:o.push(l||!i?r:`${i}: ${r}`)}return{errors:s,rest:o}}function lk(t){let e=t.split(".");for(let n=e.length;n>0;n-=1){let s=nk[e.slice(0,n).join(".")];if(s)return s}return null}var jh={id:null,request:null,archive:null},pr=jh;async function Fl(t,e=null,n={}){let s=JSON.stringify(t);(pr.request!==s||pr.archive!==e)&&(pr={id:oi(),request:s,archive:e});let o={id:pr.id,...t},i=e?await Ou("POST","/v1/sessions",ak(o,e),n):await Me("/v1/sessions",o);return pr=jh,i}function ak(t,e){let n=new FormData;return n.append("session",JSON.stringify(t)),n.append("archive",e,e.name??"folder.tar"),n}var zl=ds("keys",!0,t=>typeof t=="boolean"),es=C(null),Iu=[{key:"?",label:"Show these shortcuts",run:()=>es.value="help"},{key:"Ctrl+K",label:"Go to a session or run an action",run:()=>es.value="palette"},{key:"/",label:"Search the list, or the open session",run:$r},{key:"n",label:"New session",run:gr},{key:"j",label:"Next session in the list",run:()=>Hh(1)},{key:"k",label:"Previous session in the list",run:()=>Hh(-1)},{key:"a",label:"Approve the call (in the list: of the selected session)",run:()=>Gh("approve")},{key:"d",label:"Deny the call",run:()=>Gh("deny")},{key:"Esc",label:"Close a dialog or menu"}];function gr(){Be.value.page!=="sessions"&&ot("#/"),hs.value=!0}function $r(){Be.value.page==="session"?es.value="search":document.querySelector('.filter input[type="search"]')?.focus()}function Hh(t){let e=[...document.querySelectorAll(".session-row .row-name a")],n=e.findIndex(o=>o.closest(".session-row").contains(document.activeElement)),s=n<0?0:Math.min(Math.max(n+t,0),e.length-1);e[s]?.focus()}function Gh(t){let{activeElement:e}=document;(e.closest(".approval")??e.closest(".session-row")??(Be.value.page==="session"?document:null))?.querySelector(`.approval [data-decision="${t}"]`)?.click()}function Du(t){if(t.defaultPrevented||t.isComposing||fk(t.target)||uk())return;let e=Iu.find(({key:n,run:s})=>s&&ck(t,n));e&&(t.preventDefault(),e.run())}function ck({key:t,ctrlKey:e,metaKey:n,altKey:s},o){let i=o.startsWith("Ctrl+");return s||(e||n)!==i?!1:i?`Ctrl+${t.toUpperCase()}`===o:zl.value&&t===o}var uk=()=>document.querySelector("dialog[open]")!==null;function fk(t){return t instanceof Element?t.matches("input")?!["checkbox","radio","button","file"].includes(t.type):t.isContentEditable||t.matches("textarea, select"):!1}var Kh=[["Needs you",ms],["Running",({status:t})=>t==="running"],["Done",t=>t.status==="idle"&&!ms(t)]];function ms({status:t,outcome:e,unseen:n}){return t.startsWith("awaiting_")||t==="idle"&&e==="failed"&&n}function Yh(t,e,n){let s=t.findIndex(({id:f})=>f===e.id),o=t[s],i=o?.status==="running"&&e.status==="running",r=o&&(i||o.placed_at>=e.updated_at),l={...e,placed_at:r?o.placed_at:e.updated_at};if(r)return t.with(s,l);let a=o?t.toSpliced(s,1):t,u=a.findIndex(f=>Jh(l,f));return u<0?n&&!o&&l.status==="idle"?a:[...a,l]:a.toSpliced(u,0,l)}function Zh(t){return[...new Map(t.map(n=>[n.id,{...n,placed_at:n.updated_at}])).values()].sort((n,s)=>Jh(n,s)?-1:1)}function Jh(t,e){return t.placed_at!==e.placed_at?t.placed_at>e.placed_at:t.id>e.id}function vr(t,{status:e,q:n}){return(e==="needs_attention"?!ms(t):e&&t.status!==e)?!1:n?[t.title,t.task].some(s=>s&&Vh(s).includes(Vh(n))):!0}var Vh=t=>t.replace(/[A-Z]+/g,e=>e.toLowerCase());var dk=8,pk=120;function Qh({onClose:t}){let[e,n]=M(""),s=e.trim(),[o,i]=Rl(s,hk,pk),r=d=>()=>{t(),d()},l=mk().filter(({label:d})=>d.toLowerCase().includes(s.toLowerCase())),u=[...(o?.items??[]).filter(d=>vr(d,{q:s})).map(d=>({key:d.id,content:c`<span class="choice-name">${Lt(d)}</span> <${si} session=${d} />`,choose:r(()=>ot(be(d.id)))})),...l.map(({label:d,run:h})=>({key:d,content:d,choose:r(h)}))],f=i?.message??(o?`Nothing matches “${e}”`:"Loading…");return c`<${et} title="Go to" onClose=${t}>
    <${Ml} label="Find a session or an action" text=${e} onText=${n} items=${u} empty=${f} />
  <//>`}function hk(t){return W(`/v1/sessions?${new URLSearchParams({sort:"activity",limit:dk,...t&&{q:t}})}`)}function mk(){let{page:t,id:e}=Be.value,n=fs.map(s=>({label:`Show ${s}`,run:()=>ot(be(e,s))}));return[{label:"New session",run:gr},...t==="session"?[{label:"Search this session",run:$r},...n]:[],{label:"All sessions",run:()=>ot("#/")},{label:"Sessions that need you",run:()=>ot("#/?status=needs_attention")},{label:"Usage of all sessions",run:()=>ot("#/usage")},{label:"Settings",run:()=>ot("#/settings")},{label:"Keyboard shortcuts",run:()=>es.value="help"},...ur.map(s=>({label:`Theme: ${s}`,run:()=>ps.value=s}))]}var gk=250,$k={user:"You",assistant:"Assistant",tool:"Output",control:"Palimpsest",summary:"Summary"};function Xh({id:t,onClose:e}){let[n,s]=M(""),o=n.trim(),[i,r,l]=Rl(o,()=>vk(t,o),gk),u=(l===o&&i?i.items:[]).map(d=>({key:`${d.seq} ${d.call_id}`,content:c`<span class="dim">${$k[d.role]??d.role}</span> <${bk} hit=${d} />`,choose:()=>{e(),ot(be(t,"conversation",{message:d.seq}))}})),f=r?.message??(o&&l===o?`No messages match “${o}”`:"");return c`<${et} title="Search this session" onClose=${e} wide>
    <${Ml} label="Words, paths or “phrases”" text=${n} onText=${s} items=${u} empty=${f} />
  <//>`}async function vk(t,e){return e?W(`${I(t,"search")}?${new URLSearchParams({q:e})}`):{items:[]}}function bk({hit:{snippet:t,ranges:e}}){let n=[...t],s=(r,l)=>L(n.slice(r,l).join("")),o=0,i=e.flatMap(([r,l])=>{let a=s(o,r);return o=l,[a,c`<mark>${s(r,l)}</mark>`]});return c`<span class="snippet">${i}${s(o)}</span>`}function em(){O(()=>(addEventListener("keydown",Du),()=>removeEventListener("keydown",Du)),[]);let t=()=>es.value=null,{page:e,id:n}=Be.value;return es.value==="help"?c`<${wk} onClose=${t} />`:es.value==="palette"?c`<${Qh} onClose=${t} />`:es.value==="search"&&e==="session"?c`<${Xh} id=${n} onClose=${t} />`:null}function wk({onClose:t}){return c`<${et} title="Keyboard shortcuts" onClose=${t}>
    <dl class="shortcuts">
      ${Iu.map(({key:e,label:n})=>c`<div key=${e}>
          <dt>${e.split("+").map(s=>c`<kbd key=${s}>${s}</kbd>`)}</dt>
          <dd>${n}</dd>
        </div>`)}
    </dl>
    <p class="dim">Not while you type in a field. Settings can turn off the keys without Ctrl.</p>
  <//>`}var yk={system:"◐ System",light:"○ Light",dark:"● Dark"};function tm(){return c`<select
    class="theme"
    aria-label="Theme"
    value=${ps.value}
    onChange=${t=>ps.value=t.currentTarget.value}
  >
    ${ur.map(t=>c`<option key=${t} value=${t}>${yk[t]}</option>`)}
  </select>`}var Nu=400,nm=({start_line:t,end_line:e})=>t==null&&e==null?"":` lines ${t??1}–${e??"end"}`,br={execute_command:t=>["Run",t.command,t.background?" in the background":""],stop_command:t=>["Stop command",t.command_id],delegate:t=>["Delegate",t.task],write_file:t=>["Write",t.path],edit_file:t=>["Edit",t.path],memory_write:t=>["Write memory",t.content],command_output:t=>["Output of",t.command_id],read_file:t=>["Read",t.path,nm(t)],list_directory:t=>["List",t.path],search_files:t=>["Search",t.pattern,` in ${t.path??"."}${t.glob?`, ${t.glob}`:""}`],recall:t=>["Recall",t.call_id,t.grep?` for ${t.grep}`:nm(t)],history_search:t=>["Search history",t.query],memory_read:()=>["Read memory",""],memory_search:t=>["Search memory",t.query],update_plan:t=>["Plan",t.items?`${t.items.length} items`:""]},sm={execute_command:"terminal",stop_command:"terminal",command_output:"terminal",read_file:"file",write_file:"edit",edit_file:"edit",list_directory:"folder",search_files:"search",update_plan:"plan",recall:"search",history_search:"search",memory_read:"memory",memory_write:"memory",memory_search:"memory"},om=t=>Object.hasOwn(sm,t)?sm[t]:"tool",im=Object.keys(br);function Bt(t){let[,e,n]=/^mcp__(.+?)__(.+)$/s.exec(t)??[];return L(n===void 0?t:`${e} › ${n}`)}function li({name:t,arguments:e}){let n=kk(e)&&Object.hasOwn(br,t)?br[t](e):[Bt(t),_k(e)],[s,o,i=""]=n.map(r=>L(String(r??"").slice(0,Nu)));return{verb:s,argument:o,more:i}}var _k=t=>typeof t=="string"?t:JSON.stringify(t??{}),kk=t=>typeof t=="object"&&t!==null,xk=/"(?:command|path|pattern|query|call_id|task)"\s*:\s*("(?:[^"\\]|\\.)*"?)/;function rm({name:t,written:e}){let n=Object.hasOwn(br,t)?br[t]({})[0]:Bt(t),s=xk.exec(e.slice(0,4*Nu));return{verb:n,argument:s?L(Sk(s[1]).slice(0,Nu)):"",more:""}}function Sk(t){let e=t.length>1&&t.endsWith('"')?t:`${t}"`;try{return JSON.parse(e)}catch{return t.slice(1)}}var Ek={error:{word:"failed",kind:"bad"},denied:{word:"denied",kind:"warn"},cancelled:{word:"cancelled",kind:"warn"},interrupted:{word:"interrupted",kind:"warn"}};function lm(t,e,n){if(t.open)return{word:"writing",kind:"running"};if(e)return e.exit_code?{word:`exit ${e.exit_code}`,kind:"bad"}:Ek[e.status]??{word:e.exit_code===0?"exit 0":"done",kind:"good"};let s=n.approvals.value;if(s.some(({call_id:i})=>i===t.call_id))return{word:"awaiting approval",kind:"waiting"};if(s.length)return{word:"waiting for other approvals",kind:"waiting"};let{status:o}=n.session.value??{};return o==="idle"?{word:"no result",kind:"warn"}:n.clientCalls.value.some(({call_id:i})=>i===t.call_id)?{word:"awaiting client",kind:"waiting"}:o==="awaiting_client"?{word:"waiting for other calls",kind:"waiting"}:{word:"running",kind:"running"}}var gs=C(""),Wl=C(0);We(()=>{let t=[gs.value,"Palimpsest"].filter(Boolean).join(" · ");document.title=Wl.value?`(${Wl.value}) ${t}`:t});var am=500,cm=1e4,ai=class{#e=am;#t=null;reset(){this.#e=am}next(e){let n=(tn.peek()?cm:this.#e)*(.75+Math.random()/2);return this.#e=Math.min(cm,this.#e*2),Math.max(n,(e?.retryAfterS??0)*1e3)}async wait(e){let n,s,o=()=>document.visibilityState==="visible"&&this.end();addEventListener("online",o),document.addEventListener("visibilitychange",o),await new Promise(i=>{this.#t=i,n=setTimeout(i,e);let r=tn.peek();s=We(()=>r&&!tn.value&&i())}),this.#t=null,clearTimeout(n),s(),removeEventListener("online",o),document.removeEventListener("visibilitychange",o)}end(){this.#t?.()}};var Bl=class{#e;#t="";#n="";#s=[];#o=null;#i=!1;constructor(e){this.#e=e}feed(e){if(e==="")return;this.#i&&e.startsWith(`
`)&&(e=e.slice(1)),this.#i=e.endsWith("\r");let n=(this.#t+e).split(/\r\n|\r|\n/);this.#t=n.pop();for(let s of n)this.#l(s)}#l(e){if(e==="")return this.#r();let n=e.indexOf(":");if(n===0)return;let s=n<0?e:e.slice(0,n),o=n<0?"":e.slice(n+1);o.startsWith(" ")&&(o=o.slice(1)),s==="data"?this.#s.push(o):s==="event"?this.#n=o:s==="id"&&!o.includes("\0")&&(this.#o=o)}#r(){let e={id:this.#o,type:this.#n||"message",data:this.#s.join(`
`)},n=this.#s.length===0;this.#n="",this.#s=[],this.#o=null,n||this.#e(e)}};var Ck=4e4,Tk=3e4,Ok=3e3,ci=class{state=C("connecting");retryAt=C(null);lastId;#e;#t;#n;#s;#o=!1;#i=null;#l=new ai;#r=um();#a=null;#c=()=>{};constructor(e,{after:n=null,onEvents:s,onConnected:o=()=>{},onLost:i=()=>{},staysOpen:r=()=>!1}){this.#e=e,this.lastId=n,this.#t=s,this.onConnected=o,this.#n=i,this.#s=r,document.addEventListener("visibilitychange",this.#f),this.#d()}stop(){this.#o=!0,this.state.value="closed",this.#i?.abort(),this.#l.end(),clearTimeout(this.#a),this.#c(),document.removeEventListener("visibilitychange",this.#f)}reconnect(){this.#i?.abort()}tryNow(){this.#l.end()}#f=()=>{clearTimeout(this.#a),um()?this.#a=setTimeout(()=>this.#u(),Tk):(this.#r=!1,this.#c())};#u(){this.#s()||(this.#r=!0,this.#i?.abort())}async#d(){this.#r&&await this.#p(),await this.#m()}async#m(){for(;!this.#o;){let e=null;try{await this.#h()}catch(n){if(n instanceof Ln&&!n.mayPass){this.stop(),this.#n(n);return}e=n}!this.#o&&!this.#r&&await this.#b(e),!this.#o&&this.#r&&await this.#p()}}async#p(){await new Promise(e=>this.#c=e),this.#o||(this.state.value="connecting")}async#h(){this.#i=new AbortController;let e={Accept:"text/event-stream"};this.lastId!==null&&(e["Last-Event-ID"]=String(this.lastId));let n=new ti(Ck,()=>this.#i.abort());try{let s=await Wt("GET",this.#e,{headers:e,signal:this.#i.signal});this.#l.reset(),this.state.value="live",this.retryAt.value=null,this.onConnected(),await this.#g(s.body,n)}finally{n.stop()}}async#g(e,n){let s=[],o=new Bl(r=>s.push(...Ak(r))),i=e.pipeThrough(new TextDecoderStream).getReader();for(;!this.#o;){let{done:r,value:l}=await i.read();if(r)return;if(n.heard(),o.feed(l),s.length===0)continue;let a=s;s=[],this.#$(a)}}#$(e){let n=e.findLast(s=>s.seq!==null);try{this.#t(e)}catch(s){console.error(s)}n&&(this.lastId=n.seq,this.state.value=us()-Date.parse(n.data.at)>Ok?"behind":"live",this.state.value==="behind"&&this.#v())}#v(){let e=this.lastId;setTimeout(()=>{this.lastId===e&&this.state.value==="behind"&&(this.state.value="live")},300)}async#b(e){let n=this.#l.next(e);this.state.value="offline",this.retryAt.value=Date.now()+n,await this.#l.wait(n),this.#o||(this.state.value="connecting")}},um=()=>document.visibilityState==="hidden";function Ak({id:t,type:e,data:n}){try{return[{seq:t===null?null:Number(t),type:e,data:JSON.parse(n)}]}catch(s){return console.error(s),[]}}var Fu=50,ql=500,Mk=80,Rk=200,Lk=5e3,zu=class{items=C([]);nextCursor=C(null);loading=C(!0);loaded=C(!1);problem=C(null);filter=C({status:"",q:""});staysOpen=()=>!1;follower=C(null);attention=C(new Set);watchers=new Set;#e=new Map;#t=0;#n=new Set;#s=!1;#o=null;#i=[];#l=null;#r=()=>{};open(){this.follower.value=new ci("/v1/events?activity=true",{onEvents:e=>this.#u(e),onConnected:()=>this.load({keep:!0}),onLost:e=>this.problem.value=e,staysOpen:()=>this.staysOpen()}),this.#l=setInterval(()=>this.#w(),Lk),this.#r=We(()=>{let{value:e}=this.follower.value.state;e==="offline"&&!this.loaded.peek()&&gn(()=>this.load())})}close(){this.follower.value?.stop(),clearInterval(this.#l),this.#r(),this.#n.clear(),this.attention.value=new Set,this.#t+=1}async load({keep:e=!1}={}){let n=e?Math.max(Fu,this.items.value.length):Fu;this.#o=[],await this.#a(async s=>{let o=W(`/v1/sessions?status=needs_attention&sort=activity&limit=${ql}`),i=this.filter.value.status?{items:[]}:W(this.#f(null,ql,"running")),r=Promise.all([o,i]);r.catch(()=>{});let l=[],a=null;do{let h=await W(this.#f(a,Math.min(ql,n-l.length)));if(!s())return;l.push(...h.items),a=h.next_cursor}while(a!==null&&l.length<n);let[{items:u},{items:f}]=await r;if(!s())return;this.attention.value=new Set(u.map(({id:h})=>h));let d=u.filter(h=>vr(h,this.filter.value));this.#c(Zh([...d,...f,...l]),a)})}async more(){let e=this.nextCursor.value;e===null||this.loading.value||await this.#a(async n=>{let s=await W(this.#f(e,Fu));n()&&me(()=>{for(let o of s.items)this.#p(o.id)||this.#g(o,null,!1);this.nextCursor.value=s.next_cursor,this.problem.value=null})})}async#a(e){let n=++this.#t,s=()=>n===this.#t;this.loading.value=!0;try{await e(s)}catch(o){s()&&(this.problem.value=o)}finally{s()&&(this.loading.value=!1,this.#o=null)}}#c(e,n){me(()=>{this.items.value=e;for(let{id:s,status:o}of e)this.#e.set(s,o);this.nextCursor.value=n,this.problem.value=null,this.loaded.value=!0;for(let s of this.#o??[])this.#m(s)})}setFilter({status:e,q:n}){let s=this.filter.value;if(!(e===s.status&&n===s.q))return this.filter.value={status:e,q:n},this.loaded.value=!1,this.load()}#f(e,n,s=this.filter.value.status){let o=new URLSearchParams({limit:n,sort:"activity"}),{q:i}=this.filter.value;return s&&o.set("status",s),i&&o.set("q",i),e&&o.set("cursor",e),`/v1/sessions?${o}`}#u(e){this.#o?.push(...e),this.#i.push(...e)===e.length&&setTimeout(()=>this.#d(),Mk)}#d(){let e=this.#i;this.#i=[],me(()=>{for(let n of e)this.#m(n)})}#m({type:e,data:n}){let s=n.session_id;if(e==="session.deleted")return this.removed(s);if(e==="session.activity")return this.#h(s,{activity:n.activity,...n.step===null?{}:{steps:n.step}});if(n.session)this.put(n.session);else if(e==="session.running")this.#e.set(s,"running"),this.#h(s,{status:"running",outcome:null,error:null,activity:null,updated_at:n.at});else if(e==="session.idle"){let{outcome:o,error:i=null}=n;this.#h(s,{status:"idle",outcome:o,error:i,activity:null,unseen:!0,updated_at:n.at})}this.#v(s)}put(e){if(e.kind==="subagent")return;let n=this.#p(e.id);n&&n.last_seq>e.last_seq||this.#g(e,n)}seen(e){this.#$(e,!1),this.#h(e,{unseen:!1})}removed(e){this.#n.delete(e),this.#e.delete(e),this.#$(e,!1),this.items.value=this.items.value.filter(n=>n.id!==e)}#p(e){return this.items.value.find(n=>n.id===e)}#h(e,n){let s=this.#p(e);s&&this.#g({...s,...n},s)}#g(e,n,s=this.nextCursor.value!==null){let o=vr(e,this.filter.value);this.items.value=o?Yh(this.items.value,e,s):this.items.value.filter(({id:r})=>r!==e.id),this.#$(e.id,ms(e));let i=this.#e.get(e.id);if(this.#e.set(e.id,e.status),i!==void 0&&i!==e.status)for(let r of this.watchers)r(e)}#$(e,n){if(this.attention.value.has(e)===n)return;let s=new Set(this.attention.value);n?s.add(e):s.delete(e),this.attention.value=s}#v(e){this.#n.add(e),!this.#s&&(this.#s=!0,setTimeout(()=>this.#b(),Rk))}async#b(){for(let e of this.#n){this.#n.delete(e);try{let n=await W(I(e));this.#n.has(e)||this.put(n)}catch(n){n.status===404&&this.removed(e)}}this.#s=!1}async#w(){let e=this.items.value.filter(({status:n})=>n==="running").length;if(!(e===0||document.visibilityState!=="visible"||this.loading.value))try{let{items:n}=await W(this.#f(null,Math.min(ql,e),"running"));me(()=>{for(let s of n)this.#p(s.id)&&!this.#n.has(s.id)&&this.put(s)})}catch{}}},re=new zu;var fm=t=>typeof t=="boolean",$s=ds("notifications",!1,fm),Ul=ds("sound",!1,fm),wr=C(new Set),dm=()=>document.visibilityState==="visible"&&document.hasFocus();async function pm(t){return t&&await globalThis.Notification?.requestPermission()!=="granted"?!1:($s.value=t,!0)}function hm(){dm()&&wr.peek().size>0&&(wr.value=new Set)}addEventListener("focus",hm);document.addEventListener("visibilitychange",hm);We(()=>{Wl.value=re.attention.value.size+wr.value.size});re.staysOpen=()=>$s.peek();re.watchers.add(t=>{t.status==="running"||dm()||(t.status==="idle"&&!ms(t)&&(wr.value=new Set(wr.peek()).add(t.id)),!(!$s.peek()||globalThis.Notification?.permission!=="granted")&&(Pk(t),Ul.peek()&&Dk()))});function Pk(t){let e=new Notification(Lt(t),{body:Ik(t),tag:`palimpsest-${t.id}`});e.onclick=()=>{window.focus(),ot(be(t.id)),e.close()}}function Ik({status:t,outcome:e,activity:n,error:s}){if(t==="awaiting_approval"){let{verb:o,argument:i}=n?li(n):{verb:"a call",argument:""};return`Waiting for approval: ${o} ${i}`}return t==="awaiting_client"?"Waiting for a client's result":e==="completed"?"Completed":L([e.replace("_"," "),s?.detail].filter(Boolean).join(": "))}function Dk(){let t=new AudioContext,e=t.createOscillator(),n=t.createGain();n.gain.value=.05,e.frequency.value=660,e.connect(n).connect(t.destination),e.onended=()=>t.close(),e.start(),e.stop(t.currentTime+.15)}var _r="palimpsest.logged-in",yr=C(wm());addEventListener("storage",({key:t,newValue:e})=>{if(t!==_r&&t!==null)return;let n=yr.value;yr.value=wm(),yr.value&&e!==null?tn.value=!1:n&&t===_r&&location.reload()});function mm(){return c`<main class="page login">
    <h1>Palimpsest</h1>
    <${$m} about="Enter an API key to sign in." />
  </main>`}function gm(){let t=P(null);return pe(()=>{let s=t.current;return s.showModal(),()=>s.close()},[]),c`<dialog ref=${t} class="login" aria-label="Sign in" onCancel=${s=>s.preventDefault()} onClose=${()=>t.current?.showModal()}>
    <div class="dialog-body">
      <header><h2>Sign in</h2></header>
      <${$m} about="You have been signed out. Enter an API key to sign in." />
    </div>
  </dialog>`}function $m({about:t}){let[e,n]=M(null),[s,o]=M(!1),i=P(null);O(()=>i.current.focus(),[]);async function r(l){l.preventDefault();let a=i.current.value.trim();if(!s){n(null),o(!0);try{await Nk(a)}catch(u){n(u),o(!1),i.current.select()}}}return c`<form class="field" onSubmit=${r}>
    <p id="login-about">${t} It is sent once and not stored in this browser.</p>
    <input hidden readonly name="username" autocomplete="username" value="palimpsest" />
    <label for="login-key">API key</label>
    <input
      id="login-key"
      ref=${i}
      type="password"
      name="password"
      autocomplete="current-password"
      autocapitalize="off"
      spellcheck=${!1}
      required
      aria-describedby="login-about"
      aria-invalid=${e!==null}
    />
    <button class="primary" aria-disabled=${s?"true":void 0} aria-busy=${s}>Sign in</button>
    ${e&&c`<p class="failure" role="alert">${e.message}</p>`}
  </form>`}function vm(){return yr.value?c`<${q} kind="plain" onClick=${Fk}>Sign out<//>`:null}async function Nk(t){await Me("/v1/login",{key:t}),bm(!0),tn.value=!1}async function Fk(){await Vt("/v1/login"),bm(!1),location.reload()}function bm(t){yr.value=t;try{t?localStorage.setItem(_r,String(Date.now())):localStorage.removeItem(_r)}catch{}}function wm(){try{return localStorage.getItem(_r)!==null}catch{return!1}}var ym=128;function jl({attachments:t,isBrief:e=!1}){let n=le(),s=P(null),o=({currentTarget:i})=>{let r=[...i.files];i.value="",t.add(r)};return c`<label class="hidden" for=${n}>Images to attach</label>
    <input ref=${s} id=${n} type="file" accept=${Th.join()} multiple hidden onChange=${o} />
    <button
      type="button"
      class="attach"
      title=${e?"Attach images":void 0}
      onClick=${()=>s.current.click()}
    >
      ${e?c`<${Xn} name="attach" /><span class="hidden">Attach images</span>`:"Attach images"}
    </button>`}function Hl({attachments:t}){let e=t.items.value,n=t.problem.value,s=P(null),o=i=>{t.remove(e[i].key),requestAnimationFrame(()=>{let r=s.current?.querySelectorAll("button")??[];(r[Math.min(i,r.length-1)]??s.current?.parentElement.querySelector(".attach"))?.focus()})};return c`<ul class="attached" aria-label="Attached images" ref=${s} hidden=${e.length===0}>
      ${e.map(({key:i,name:r,file:l},a)=>c`<li key=${i}>
          <${zk} name=${r} file=${l} />
          <span class="attached-name">${r} <span class="dim numbers">${Se(l.size)}</span></span>
          <button type="button" class="plain" aria-label=${`Remove ${r}`} onClick=${()=>o(a)}>×</button>
        </li>`)}
    </ul>
    ${n&&c`<p class="field-error" role="alert">${n}</p>`}`}function zk({name:t,file:e}){let n=P(null);return O(()=>{Wk(n.current,e).catch(()=>{})},[e]),c`<canvas ref=${n} width="0" height="0" role="img" aria-label=${t}></canvas>`}async function Wk(t,e){let n=await createImageBitmap(e),s=Math.min(1,ym/n.height,2*ym/n.width);t.width=Math.max(1,Math.round(n.width*s)),t.height=Math.max(1,Math.round(n.height*s)),t.getContext("2d").drawImage(n,0,0,t.width,t.height),n.close()}var _m=({dataTransfer:t})=>t?.types.includes("Files");function Gl(t){return e=>{let{files:n,types:s}=e.clipboardData;n.length===0||s.includes("text/plain")||(e.preventDefault(),t.add([...n]))}}function Vl(t){let[e,n]=M(!1);return{isOver:e,onDragOver:s=>{_m(s)&&(s.preventDefault(),n(!0))},onDragLeave:({currentTarget:s,relatedTarget:o})=>s.contains(o)||n(!1),onDrop:s=>{_m(s)&&(s.preventDefault(),n(!1),t(s))}}}var Bk={connecting:"Connecting…",behind:"Catching up…",offline:"Offline"};function Kl({follower:t}){let e=t?t.state.value:"connecting",n=t&&t.retryAt.value!==null&&e!=="closed";return c`<span class="connection ${n?"offline":e}">
    <span role="status">${Bk[e]??""}</span>
    ${n&&c`<${qk} follower=${t} isTrying=${e!=="offline"} />`}
  </span>`}function qk({follower:t,isTrying:e}){let n=Uk(t.retryAt.value);return c`${!e&&c`<span class="dim numbers">retrying in ${n} s</span>`}
    <button type="button" aria-disabled=${e} onClick=${()=>t.tryNow()}>Retry now</button>`}function Uk(t){let e=()=>Math.max(0,Math.ceil((t-Date.now())/1e3)),[n,s]=M(e);return O(()=>{s(e());let o=setInterval(()=>s(e()),500);return()=>clearInterval(o)},[t]),n}var ea={exports:{}};function Tm(t){return Array.isArray(t)?t:[t]}var ui=void 0,In="",di=" ",At="\\",jk=/[.*+?()[\]{}^$|\\/]/,Om="\uFEFF",Hk=/^\/\*{2,}$/,Gk=/^\\!/,Vk=/^\\#/,Kk=/\r?\n/g,Yk="//",fi=47,km=46,sn="/",Am="node-ignore";typeof Symbol<"u"&&(Am=Symbol.for("node-ignore"));var Mm=Am,mo=(t,e,n)=>(Object.defineProperty(t,e,{value:n}),n),Rm=()=>!1,xm={alnum:"0-9A-Za-z",alpha:"A-Za-z",blank:" \\t",cntrl:"\\x00-\\x1f\\x7f",digit:"0-9",graph:"!-.0-~",lower:"a-z",print:" -.0-~",punct:"!-.:-@\\[-`{-~",space:" \\t\\n\\r",upper:"A-Z",xdigit:"0-9A-Fa-f"},Zk="\\]^-[",Yl=t=>Zk.indexOf(t)<0?t:At+t,Jk="(?!\\/)",Qk=(t,e)=>{if(t)return`[^\\/${e}]`;let n=`[${e}]`;return new RegExp(n).test("/")?Jk+n:n},Xk=(t,e)=>{let{length:n}=t,s=e+1,o=In,i=t[s];(i==="!"||i==="^")&&(o="^",s++);let r=In,l=In;for(;;){let a=t[s];if(a===ui)return null;if(a===At){let u=t[++s];r+=Yl(u),l=u}else if(a==="-"&&l&&s+1<n&&t[s+1]!=="]"){s++;let u=t[s];u===At&&(u=t[s+=1]),l<=u&&(r+=`-${Yl(u)}`),l=In}else if(a==="["&&t[s+1]===":"){let u=s+2,f=u;for(;f<n&&t[f]!=="]";)f++;if(f===n)return null;if(f>u&&t[f-1]===":"){let d=t.slice(u,f-1);if(!Object.prototype.hasOwnProperty.call(xm,d))return null;r+=xm[d],l=In,s=f}else r+=Yl("["),l="[",s=u-2}else r+=Yl(a),l=a;if(s++,t[s]==="]")return{end:s,source:Qk(o,r)}}},Wu="[]",xr="\0",ex=new RegExp(`${xr}(\\d+)${xr}`,"g"),Ql="",Xl="",Sm=t=>t===xr||t===Ql||t===Xl,tx=t=>{let e=[],n=r=>`${xr}${e.push(r)-1}${xr}`,{length:s}=t,o=In,i=0;for(;i<s;){let r=t[i];if(r===At){let l=t[i+1];l===sn&&i+2===s?o+=n(Wu):l==="*"||l==="["||l===di?o+=t.slice(i,i+2):o+=n(jk.test(l)?At+l:Sm(l)?`[${l}]`:l),i+=2}else if(Sm(r))o+=n(`[${r}]`),i++;else if(r==="["){let l=Xk(t,i);l===null?(o+=n(Wu),i=s):(o+=n(l.source),i=l.end+1)}else o+=r,i++}return{source:o,sources:e}},Bu=null,nx=/\/(?!$)/,kr="[^\\/]*",sx=[[/(\\+)( ?)/g,(t,e,n)=>n?e.slice(0,e.length-e.length%2)+di:e,At+di],[/(^|\/)\*{3,}(?=\/|$)/g,(t,e)=>`${e}**`,"*"],[/[\\$.|*+(){^]/g,t=>`\\${t}`],[/(?!\\)\?/g,()=>"[^/]","?"],[/^\//,()=>"^",sn],[/\//g,()=>"\\/",sn],[/^\^*(?:\\\*\\\*\\\/)+/,()=>"(?:^|\\/)","*"],[Bu,(t,e)=>!t||t[0]==="^"||t[0]==="("?t:(nx.test(e)?"^":"(?:^|\\/)")+t],[/\\\/\\\*\\\*(?=\\\/|$)/g,(t,e,n)=>e+6<n.length?n.slice(e+6)==="\\/"?"(?:\\/[^\\/]+)+":"(?:\\/[^\\/]+)*":`\\/${Xl}`,"*"],[/(^|[^\\])(?:\\\*)+(?!$)/g,(t,e)=>e+kr,"*"],[/(^|[^\\])((?:\\\\)*)\\\*$/,(t,e,n)=>n===In?e+Ql:t,"*"],[/\\\\\\(?=[$.|*+(){^])/g,()=>At,At+At],[/\\\\/g,()=>At,At+At],[/\\\[([^\]/]*?)($|\])/g,(t,e,n)=>`\\[${e}${n}`,"["],[Bu,t=>{let e=t[t.length-1];return!e||e===Ql||e===Xl?t:e===sn?`${t}$`:`${t}(?=$|\\/$)`}]],ox=/(^|\\\/)?\uE000$/,Zl="regex",Em="checkRegex",Cm="_",ix=(t,e)=>`${e?`${e}[^/]+`:"[^/]*"}(?=$|\\/$)`,rx=/\uE001$/,lx=()=>"[\\s\\S]",ax=(t,e)=>{let n=In;for(let s=e+1;s<t.length&&!t[s].wildcard;s++)n+=t[s].single;return n},cx=t=>{if(t.indexOf(kr)<0)return t;let e=[],{length:n}=t,s=0;for(;s<n;){let l=t[s];if(t.startsWith(kr,s))e.push({wildcard:!0}),s+=kr.length;else if(l==="["){let a=s+1;for(t[a]==="^"&&a++,t[a]==="]"&&a++;a<n&&t[a]!=="]";)a+=t[a]===At?2:1;a++,e.push({single:t.slice(s,a)}),s=a}else if(l===At)e.push({single:t.slice(s,s+2)}),s+=2;else if(l==="("){let a=0,u=s;do t[u]===At?u++:t[u]==="("?a++:t[u]===")"&&a--,u++;while(u<n&&a>0);"*+?".indexOf(t[u])>=0&&u++,e.push({boundary:t.slice(s,u)}),s=u}else l==="^"||l==="$"?(e.push({boundary:l}),s++):(e.push({single:l}),s++)}let o=In,i=[],r=()=>{let l;i.forEach((a,u)=>{a.wildcard&&(l=u)}),i.forEach((a,u)=>{if(!a.wildcard){o+=a.single;return}o+=u===l?kr:`(?:(?!${ax(i,u)})[^\\/])*`}),i=[]};return e.forEach(l=>{if(l.boundary===void 0){i.push(l);return}r(),o+=l.boundary}),r(),o},Lm=t=>{Hk.test(t)&&(t="**");let{source:e,sources:n}=tx(t),s=sx.reduce((o,[i,r,l])=>i===Bu?r(o,t):l!==ui&&o.indexOf(l)<0?o:i.test(o)?o.replace(i,r.bind(t)):o,e);return n.length?s.replace(ex,(o,i)=>n[i]):s},ux=(t,e)=>{t[t.length-1]===sn&&(e=Lm(t.slice(0,-1)));let n=e.slice(0,-1),s=e[e.length-1];return s===Ql?`${n}$`:s===Xl?n:Wu},Pm=t=>{let e=t.indexOf(sn);return e<0||e===t.length-1},fx=t=>{let e=t.length-1,n=t.lastIndexOf(sn,t[e]===sn?e-1:e);return n<0?t:t.slice(n+1)},dx=t=>{if(t.charCodeAt(0)===fi||t.indexOf(Yk)>=0){let s=t.split(sn).filter(Boolean);return s.pop(),s.length?s.join(sn)+sn:In}let e=t.length-1,n=t.lastIndexOf(sn,t.charCodeAt(e)===fi?e-1:e);return n<0?In:t.slice(0,n+1)},Sr=t=>typeof t=="string",px=t=>t&&Sr(t),hx=t=>(t[t.length-1]==="\r"?t.slice(0,-1):t).split(Kk).filter(Boolean),qu=class{constructor(e,n,s,o,i,r){this.pattern=e,this.mark=n,this.negative=i,mo(this,"body",s),mo(this,"ignoreCase",o),mo(this,"regexPrefix",r)}get _basenameOnly(){return mo(this,"_basenameOnly",Pm(this.body))}get regex(){let e=Cm+Zl;return this[e]?this[e]:this._make(Zl,e)}get checkRegex(){let e=Cm+Em;return this[e]?this[e]:this._make(Em,e)}_make(e,n){let s=cx(e===Zl?this.regexPrefix.replace(ox,ix).replace(rx,lx):ux(this.body,this.regexPrefix)),o=this.ignoreCase?new RegExp(s,"i"):new RegExp(s);return mo(this,n,o)}},mx=t=>{let e=0;for(;t[t.length-e-1]===At;)e++;return e%2===1},gx=(t,e)=>{let n=t.length,s;for(;;){for(e&&t[n-1]==="\r"&&n--,s=n;t[s-1]===di;)s--;if(!e||t[s-1]!==`
`)break;n=s-1}if(s===n)return t.slice(0,n);let o=0;for(;t[s-o-1]===At;)o++;return o%2?t.slice(0,s-1)+di:t.slice(0,s)},$x=(t,e,n,s,o)=>{let i=o&&t[0]===Om?t.slice(1):t;if(i[0]==="#")return;let r=!1;i[0]==="!"&&(r=!0,i=i.slice(1));let l=i[i.length-1];if((l===di||s&&(l==="\r"||l===`
`))&&(i=gx(i,s)),!i||mx(i))return;i=i.replace(Gk,"!").replace(Vk,"#");let a=Lm(i);return new qu(t,e,i,n,r,a)},Uu=class{constructor(e){this._ignoreCase=e,this._rules=[],this._basenameCount=0}_add(e,n){if(e&&e[Mm]){this._rules=this._rules.concat(e._rules._rules),this._basenameCount+=e._rules._basenameCount,this._added=!0;return}let s=Sr(e),o=s?e:e.pattern,i=px(o)&&$x(o,s?ui:e.mark,this._ignoreCase,!this._split,this._stripBOM&&!n);i&&(this._added=!0,this._rules.push(i),Pm(i.body)&&this._basenameCount++)}add(e){return this._added=!1,this._split=Sr(e),this._stripBOM=!this._split||e[0]===Om,Tm(this._split?hx(e):e).forEach(this._add,this),this._added&&(this._literalRules=ui),this._added}testLiteral(e){let n=this._literalRules||(this._literalRules=this._rules.filter(({body:l})=>l[l.length-(l[l.length-1]===sn?2:1)]==="*")),s=!1,o=!1,i;for(let l=n.length-1;l>=0;l--){let a=n[l];if(a.checkRegex.test(e)){s=!a.negative,o=a.negative,i=a.negative?ui:a;break}}let r={ignored:s,unignored:o};return i&&(r.rule=i),r}test(e,n){let s=this._rules,{length:o}=s,i=this._basenameCount*2>=o,r=i?fx(e):e;for(let l=o-1;l>=0;l--){let a=s[l];if(a[n].test(i&&a._basenameOnly?r:e)){let{negative:u}=a,f={ignored:!u,unignored:u};return u||(f.rule=a),f}}return{ignored:!1,unignored:!1}}},vx=(t,e)=>{throw new e(t)},Ns=(t,e,n)=>Sr(t)?t?Ns.isNotRelative(t)?n(`path should be a \`path.relative()\`d string, but got "${e}"`,RangeError):!0:n("path must not be empty",TypeError):n(`path must be a string, but got \`${e}\``,TypeError),Im=t=>{let e=t.charCodeAt(0);if(e===fi)return!0;if(e!==km)return!1;if(t.length===1)return!0;let n=t.charCodeAt(1);return n===fi?!0:n!==km?!1:t.length===2||t.charCodeAt(2)===fi};Ns.isNotRelative=Im;Ns.convert=t=>t;var Jl=t=>Sr(t)&&Ns.convert(t),ju=class{constructor({ignorecase:e=!0,ignoreCase:n=e,allowRelativePaths:s=!1}={}){mo(this,Mm,!0),this._rules=new Uu(n),this._strictPathCheck=!s,this._initCache()}_initCache(){this._ignoreCache=Object.create(null),this._testCache=Object.create(null)}add(e){return this._rules.add(e)&&this._initCache(),this}addPattern(e){return this.add(e)}_test(e,n,s){return Ns(s,e,this._strictPathCheck?vx:Rm),s?this._t(s,n):{ignored:!1,unignored:!1}}checkIgnore(e){let n=Jl(e);if(!n||n.charCodeAt(n.length-1)!==fi)return this._test(e,this._testCache,n);let s=this._t(n,this._testCache);if(s.ignored)return s;let o=this._rules.testLiteral(n);return o.ignored||o.unignored?o:s}_t(e,n){if(e in n)return n[e];let s=dx(e),o=s?this._t(s,n):ui;return n[e]=o&&o.ignored?o:this._rules.test(e,Zl)}ignores(e){return this._test(e,this._ignoreCache,Jl(e)).ignored}createFilter(){return e=>!this.ignores(e)}filter(e){return Tm(e).filter(this.createFilter())}test(e){return this._test(e,this._testCache,Jl(e))}},Hu=t=>new ju(t),bx=t=>Ns(Jl(t),t,Rm),Dm=()=>{let t=n=>/^\\\\\?\\/.test(n)||/["<>|\u0000-\u001F]+/u.test(n)?n:n.replace(/\\/g,"/");Ns.convert=t;let e=/^[a-z]:\//i;Ns.isNotRelative=n=>e.test(n)||Im(n)};typeof process<"u"&&process.platform==="win32"&&Dm();ea.exports=Hu;Hu.default=Hu;ea.exports.isPathValid=bx;mo(ea.exports,Symbol.for("setupWindows"),Dm);var Nm=ea.exports;var wx=[".git","node_modules",".venv","__pycache__"],yx=".gitignore";function Fm(t){return[...t.items].filter(({kind:n})=>n==="file").map(n=>{let s=n.webkitGetAsEntry?.();return s?zm(s):_x(n.getAsFile())})}var _x=t=>({name:t.name,file:async()=>t});function zm(t){return t.isDirectory?{name:t.name,list:()=>kx(t.createReader())}:{name:t.name,file:()=>new Promise((...e)=>t.file(...e))}}async function kx(t){let e=[];for(;;){let n=await new Promise((...s)=>t.readEntries(...s));if(n.length===0)return e.map(zm);e.push(...n)}}function Wm(t){let[e]=t[0].webkitRelativePath.split("/"),n=new Map;for(let s of t){let o=s.webkitRelativePath.split("/").slice(1),i=n;for(let r of o.slice(0,-1))i.has(r)||i.set(r,new Map),i=i.get(r);i.set(o.at(-1),s)}return{name:e,list:async()=>Bm(n)}}function Bm(t){return[...t].map(([e,n])=>n instanceof Map?{name:e,list:async()=>Bm(n)}:{name:e,file:async()=>n})}async function*Gu(t,e,n="",s=[]){let o=await t.list(),i=o.find(({name:u,file:f})=>f&&u===yx),r=i?[...s,{above:n,matcher:await xx(i)}]:s,l=o.filter(({name:u,list:f})=>{let d=`${n}${u}${f?"/":""}`,h=wx.includes(u)?"never":Sx(d,r)?"ignored":null;return h&&e(d,h),h===null}),a=async({name:u,file:f})=>{try{return{path:n+u,file:await f()}}catch{return e(n+u,"unreadable"),null}};yield(await Promise.all(l.filter(({file:u})=>u).map(a))).filter(Boolean);for(let u of l)u.list&&(yield*Gu(u,e,`${n}${u.name}/`,r))}async function xx(t){let e=await(await t.file()).text();return Nm({ignorecase:!1}).add(e)}function Sx(t,e){for(let{above:n,matcher:s}of e.toReversed()){let{ignored:o,unignored:i}=s.test(t.slice(n.length));if(o||i)return o}return!1}var Ex=/^[\u0020-\u007e]*$/,Vu=new TextEncoder;function Um(t){let e=t.flatMap(({path:n,file:s,mode:o})=>[...Cx(n,s,o),s,new Uint8Array(jm(s.size))]);return new Blob([...e,new Uint8Array(2*512)],{type:"application/x-tar"})}var jm=t=>(512-t%512)%512;function Cx(t,{size:e,lastModified:n},s){let o=Tx(t),i={...!o&&{path:t},...e>=8589934592&&{size:e}},r=Math.max(0,Math.floor(n/1e3)),l=qm({...o??{name:"file",prefix:""},size:e%8589934592,mode:s,time:r,type:"0"});if(Object.keys(i).length===0)return[l];let a=Vu.encode(Object.entries(i).map(([f,d])=>Ox(f,d)).join(""));return[qm({name:"pax",prefix:"",size:a.length,mode:420,time:r,type:"x"}),a,new Uint8Array(jm(a.length)),l]}function Tx(t){if(!Ex.test(t))return null;if(t.length<=100)return{name:t,prefix:""};let e=t.indexOf("/",t.length-100-1);return e<1||e>155||e===t.length-1?null:{name:t.slice(e+1),prefix:t.slice(0,e)}}function Ox(t,e){let n=` ${t}=${e}
`,s=Vu.encode(n).length,o=s+1;for(;String(o).length+s!==o;)o=String(o).length+s;return`${o}${n}`}function qm({name:t,prefix:e,size:n,mode:s,time:o,type:i}){let r=new Uint8Array(512),l=(u,f)=>r.set(Vu.encode(u),f),a=(u,f)=>`${u.toString(8).padStart(f,"0")}\0`;return l(t,0),l(a(s,7),100),l(a(0,7),108),l(a(0,7),116),l(a(n,11),124),l(a(o,11),136),l("        ",148),l(i,156),l("ustar\x0000",257),l(e,345),l(`${a(r.reduce((u,f)=>u+f),6)} `,148),r}var Ax=/\.(tar|tar\.gz|tgz|tar\.zst|tzst|zip)$/i,Hm=32,Mx=[35,33],qt=C(null),na=0;function sa(){na+=1,qt.value=null}function Gm(t){let e=Fm(t);if(e.length===0)return;let[n]=e;return e.length>1?ta({name:`${e.length} items`,list:async()=>e}):n.list?ta(n):Ax.test(n.name)?Km(n.name,"archive",async()=>Ku(await n.file())):ta({name:n.name,list:async()=>e})}function Ku(t){na+=1,qt.value={status:"ready",name:t.name,kind:"archive",bytes:t.size,left:[],archive:t}}var Vm=t=>ta(Wm(t));function ta(t){return Km(t.name,"folder",async e=>{let n=[],s=[],o=0;for await(let r of Gu(t,(l,a)=>s.push({path:l,why:a}))){if(!e())return;let l=await Rx(r,s);n.push(...l),o+=l.reduce((a,{file:u})=>a+u.size,0),qt.value={...qt.value,files:n.length,bytes:o}}if(!e())return;let i={status:"ready",files:n.length,bytes:o,left:s,archive:Um(n)};qt.value={...qt.value,...i}})}async function Km(t,e,n){let s=na+=1,o=()=>s===na;qt.value={status:"reading",name:t,kind:e,files:0,bytes:0,left:[],archive:null};try{await n(o)}catch(i){if(!o())return;qt.value={...qt.value,status:"failed",problem:`“${t}” could not be read (${i.message}).`}}}async function Rx(t,e){let n=[];for(let s=0;s<t.length;s+=Hm){let o=t.slice(s,s+Hm),i=await Promise.all(o.map(({file:r})=>r.slice(0,2).arrayBuffer().catch(()=>null)));o.forEach(({path:r,file:l},a)=>{i[a]===null?e.push({path:r,why:"unreadable"}):n.push({path:r,file:l,mode:Lx(new Uint8Array(i[a]))?493:420})})}return n}var Lx=t=>Mx.every((e,n)=>t[n]===e);var Kt=C(null);async function pi(){Kt.value=(await W("/v1/models")).items}var Fs=({provider:t})=>t==="scripted",Er=()=>Kt.value?.find(t=>t.default)??null;var Pe=ao({values:{},change:()=>{},errors:{}});function Cr({name:t,label:e,help:n,control:s}){let o=le(),i=ke(Pe).errors[t],r=[i&&`${o}-error`,n&&`${o}-help`].filter(Boolean).join(" ");return c`<div class="field">
    <label for=${o}>${e}</label>
    ${s({id:o,"aria-describedby":r||void 0,"aria-invalid":i?"true":void 0})}
    ${i&&c`<p class="field-error" id="${o}-error">${i}</p>`}
    ${n&&c`<p class="help" id="${o}-help">${n}</p>`}
  </div>`}function Pt({name:t,label:e,help:n,...s}){let{values:o,change:i}=ke(Pe),r=a=>i({[t]:a.currentTarget.value});return c`<${Cr} name=${t} label=${e} help=${n} control=${a=>c`<input type="text" value=${o[t]} onInput=${r} ...${a} ...${s} />`} />`}function vs({name:t,label:e,help:n,...s}){let{values:o,change:i}=ke(Pe),r=a=>i({[t]:a.currentTarget.value});return c`<${Cr} name=${t} label=${e} help=${n} control=${a=>c`<textarea value=${o[t]} onInput=${r} ...${a} ...${s}></textarea>`} />`}function wn({name:t,label:e,help:n,children:s,...o}){let{values:i,change:r}=ke(Pe),l=u=>r({[t]:u.currentTarget.value});return c`<${Cr} name=${t} label=${e} help=${n} control=${u=>c`<select value=${i[t]} onChange=${l} ...${u} ...${o}>${s}</select>`} />`}function yn(t){return c`<${Pt} inputmode="decimal" autocomplete="off" placeholder="server default" ...${t} />`}var Px={"":"Uses the server's setting",never:"Tools run without approval",always:"Every tool call waits for your approval",some:"The calls below wait for your approval; all others run"};function oa({byDefault:t,timeout:e="no time limit"}){let{values:n}=ke(Pe);return c`<fieldset>
    <legend>Approval</legend>
    <div class="fields">
      <${wn} name="approval" label="Calls that need approval" help=${Px[n.approval]}>
        ${t&&c`<option value="">${t}</option>`}
        <option value="never">None</option>
        <option value="always">All</option>
        <option value="some">Some tools and commands</option>
      <//>
      <${yn} name="timeout" label="Auto-deny after (seconds)" placeholder=${e} />
    </div>
    ${n.approval==="some"&&c`<${Ix} /><${Dx} />`}
  </fieldset>`}function Ix(){let{values:t,change:e,errors:n}=ke(Pe),s=(o,i)=>{let r=t.tools.filter(l=>l!==o);e({tools:i?[...r,o]:r})};return c`<div class="checks" role="group" aria-label="Tools that need approval">
    ${im.map(o=>c`<label key=${o}>
        <input
          type="checkbox"
          checked=${t.tools.includes(o)}
          onChange=${i=>s(o,i.currentTarget.checked)}
        />
        <code>${o}</code>
      </label>`)}
    ${n.tools&&c`<p class="field-error">${n.tools}</p>`}
  </div>`}function Dx(){return c`<${vs}
    name="commands"
    label="Commands that need approval"
    help=${"Regular expressions, one per line. A command that matches any of them needs approval."}
    rows="3"
    class="mono"
    spellcheck="false"
    placeholder=${`\\brm\\b
\\bgit push\\b`}
  />`}var Nx={"":"Uses the server's setting",reactive:"Waits until the context is full, then summarizes all but the newest work",threshold:"Summarizes early, at 80% of the usable context, and keeps the last ten messages",handoff:"Summarizes at 200,000 tokens and continues with only the summary and the last request"};function Ym(){return c`<div class="create-more">
    <${Pt} name="title" label="Title" placeholder="first line of the task" maxlength="300" />
    <${zx} />
    <${Wx} />
    <${Bx} />
    <${oa} byDefault="Server default" timeout="300, or the server default; “none” for no limit" />
    <${vs} name="systemPrompt" label="System prompt" rows="3" placeholder="server default" />
    <${Fx} />
  </div>`}function Fx(){return c`<${vs}
    name="output"
    label="Output (JSON Schema)"
    help=${"A JSON Schema. The run completes only with a value that matches it, which is the session's output."}
    rows="4"
    class="mono"
    spellcheck=${!1}
    autocapitalize="none"
    placeholder=${'{"type": "object", "properties": {"passed": {"type": "boolean"}}, "required": ["passed"]}'}
  />`}function zx(){let{values:t}=ke(Pe);return c`<${wn} name="compaction" label="Compaction" help=${Nx[t.compaction]}>
    <option value="">Server default</option>
    <option value="reactive">Reactive</option>
    <option value="threshold">Threshold</option>
    <option value="handoff">Handoff</option>
  <//>`}function Wx(){let{values:t}=ke(Pe),e=t.sandbox?void 0:"Choose a sandbox to set its network";return c`<fieldset>
    <legend>Sandbox</legend>
    <div class="fields">
      <${wn} name="sandbox" label="Kind">
        <option value="">Server default</option>
        <option value="docker">Docker</option>
        <option value="bubblewrap">Bubblewrap</option>
      <//>
      <${wn} name="network" label="Network" help=${e} disabled=${!t.sandbox}>
        <option value="">Server default</option>
        <option value="on">On</option>
        <option value="off">Off</option>
      <//>
    </div>
  </fieldset>`}function Bx(){return c`<fieldset>
    <legend>Limits</legend>
    <p class="help">A run stops at a limit and can be resumed. Enter “none” to remove a limit set by the server.</p>
    <div class="fields">
      <${yn} name="maxSteps" label="Max steps per run" />
      <${yn} name="maxSeconds" label="Max seconds per run" />
      <${yn} name="maxCost" label="Max total cost ($)" />
      <${yn} name="maxTokens" label="Max total tokens" />
    </div>
  </fieldset>`}function Qm(){let{values:t}=ke(Pe),e=Er();return c`<${wn} name="model" label="Model" help=${Hx(t.model)}>
      <option value="">Server default${e?`: ${e.name}`:""}</option>
      ${qx(Kt.value??[]).map(([n,s])=>c`<optgroup key=${n} label=${Ux(n,s)}>
          ${s.map(o=>c`<option key=${o.name} value=${o.name}>${jx(o)}</option>`)}
        </optgroup>`)}
      <option value=${ri}>Other…</option>
    <//>
    ${t.model===ri&&c`<${Pt}
      name="otherModel"
      label="Model name"
      placeholder="provider/model"
      autocapitalize="none"
    />`}`}var Zm=t=>Fs(t)?1:t.key_present?0:2;function qx(t){let e=new Map,n=t.toSorted((s,o)=>Zm(s)-Zm(o));for(let s of n)e.set(s.provider,[...e.get(s.provider)??[],s]);return[...e]}var Ux=(t,e)=>e[0].key_present?t:`${t} (no key)`;function jx(t){return Fs(t)?`${t.name} (scripted demo; no real model)`:t.key_present?t.name:`${t.name} (no key)`}function Hx(t){let e=t===""?Er():Kt.value?.find(s=>s.name===t);return e?Fs(e)?e.description:[e.description,`${lt(e.context_window)} tokens${e.window_source==="assumed"?" (assumed)":""}`,Gx(e.prices),e.key_present?"":Vx(e.provider)].filter(Boolean).join(" · "):void 0}function Gx({input:t,output:e}){return t===null||e===null?"price unknown":`$${t} in, $${e} out per million tokens`}var Jm={openai:"OPENAI_API_KEY",anthropic:"ANTHROPIC_API_KEY"};function Vx(t){return Jm[t]?`needs ${Jm[t]} on the server`:"no key set on the server"}function Xm(){let{values:t,change:e,errors:n}=ke(Pe),{secrets:s}=t,o=P(null),i=P(s.length);pe(()=>{let a=s.length>i.current,u=s.length<i.current;i.current=s.length,a?o.current.querySelector(".secret-row:last-of-type input").focus():u&&o.current.querySelector("button.add").focus()},[s.length]);let r=(a,u)=>e({secrets:s.map(f=>f.key===a?{...f,...u}:f)}),l=a=>e({secrets:s.filter(u=>u.key!==a)});return c`<div class="secrets" ref=${o}>
    <p class="help">
      Commands get them as environment variables. The server stores them encrypted, and replaces their values by${" "}
      <code>[secret NAME]</code> in what commands print.
    </p>
    ${s.map(({key:a,...u})=>c`<${Pe.Provider}
        key=${a}
        value=${{values:u,change:f=>r(a,f),errors:{name:n[`secrets.${a}.name`],value:n[`secrets.${a}.value`]}}}
      >
        <div class="secret-row" role="group" aria-label=${`Secret ${u.name}`}>
          <${Yu} />
          <${Zu} />
          <button type="button" aria-label=${`Remove secret ${u.name}`} onClick=${()=>l(a)}>Remove</button>
        </div>
      <//>`)}
    ${n.secrets&&c`<p class="field-error" role="alert">${n.secrets}</p>`}
    <button type="button" class="add" onClick=${()=>e({secrets:[...s,Lh()]})}>Add secret</button>
  </div>`}function Yu(){return c`<${Pt}
    name="name"
    label="Name"
    placeholder="API_TOKEN"
    autocomplete="off"
    autocapitalize="characters"
    spellcheck=${!1}
    maxlength="100"
  />`}function Zu(){let{values:t,change:e}=ke(Pe),n=i=>e({value:i.currentTarget.value}),s=i=>{let r=i.clipboardData.getData("text/plain");r.trimEnd().includes(`
`)&&(i.preventDefault(),e({value:r}))};return c`<${Cr} name="value" label="Value" help="At least 8 characters" control=${i=>t.value.includes(`
`)?c`<textarea class="masked" rows="3" spellcheck=${!1} autocomplete="off" value=${t.value}
          onInput=${n} ...${i}></textarea>`:c`<input type="password" autocomplete="new-password" value=${t.value} onInput=${n}
          onPaste=${s} ...${i} />`} />`}function eg({share:t,size:e,onCancel:n}){let s=t>=1;return c`<div class="upload-progress" role="group" aria-label="Upload">
    <progress value=${s?void 0:t} max="1" aria-label="Upload of the files"></progress>
    <span class="dim numbers" role="status">
      ${s?"Unpacking…":c`Uploading ${Se(e)}<span aria-hidden="true">, ${Fe(t)}</span>`}
    </span>
    <button type="button" onClick=${n}>Cancel upload</button>
  </div>`}var Kx={"":"Empty",files:"Folder or archive",git:"Git repository"},Yx={ignored:"ignored by .gitignore",never:"never included",unreadable:"could not be read"},Zx=200;function tg(){let{values:t,change:e}=ke(Pe),n=le();return c`<fieldset class="workspace">
    <legend>Workspace</legend>
    <div class="segments" role="radiogroup" aria-label="What the workspace starts with">
      ${Object.entries(Kx).map(([s,o])=>c`<label key=${s}>
          <input
            type="radio"
            name=${n}
            value=${s}
            checked=${t.from===s}
            onChange=${()=>e({from:s})}
          />
          <span>${o}</span>
        </label>`)}
    </div>
    ${t.from===""&&c`<p class="help">You can also drop a folder or an archive anywhere on this page.</p>`}
    ${t.from==="files"&&c`<${Jx} />`}
    ${t.from==="git"&&c`<${eS} />`}
  </fieldset>`}function Jx(){let t=ke(Pe).errors.files,e=le(),n=P(null),s=P(null),o=r=>({currentTarget:l})=>{let a=[...l.files];l.value="",a.length&&r(a)},i=r=>()=>r.current.click();return c`<div class="drop-zone" role="group" aria-label="Files" aria-describedby=${t?`${e}-error`:void 0}>
    ${qt.value?c`<${Qx} chosen=${qt.value} />`:c`<p>Drop a folder or an archive here</p>`}
    <div class="drop-ways">
      <label class="hidden" for="${e}-folder">Folder to upload</label>
      <input
        ref=${n}
        id="${e}-folder"
        type="file"
        webkitdirectory
        hidden
        onChange=${o(Vm)}
      />
      <button type="button" aria-invalid=${t?"true":void 0} onClick=${i(n)}>Choose folder…</button>
      <label class="hidden" for="${e}-archive">Archive to upload</label>
      <input
        ref=${s}
        id="${e}-archive"
        type="file"
        accept=".tar,.tgz,.gz,.zst,.zip"
        hidden
        onChange=${o(([r])=>Ku(r))}
      />
      <button type="button" onClick=${i(s)}>Choose archive…</button>
      ${qt.value&&c`<button type="button" class="plain" onClick=${sa}>Remove</button>`}
    </div>
    ${t&&c`<p class="field-error" id="${e}-error" role="alert">${t}</p>`}
    <p class="help">
      Archives can be .tar, .tar.gz, .tar.zst or .zip. A folder is packed without <code>.git</code>,${" "}
      <code>node_modules</code>, caches, and what its <code>.gitignore</code> lists.
    </p>
  </div>`}function Qx({chosen:{status:t,name:e,kind:n,files:s,bytes:o,left:i,problem:r}}){if(t==="failed")return c`<p class="field-error" role="alert">${L(r)}</p>`;let l=n==="archive"?Se(o):`${x(s)} ${s===1?"file":"files"}, ${Se(o)}`;return c`<p role="status" aria-busy=${t==="reading"}>
      <strong class="chosen-name">${L(e)}</strong> ${t==="reading"&&"Reading…"}
      <span class="dim numbers">${l}</span>
    </p>
    ${t==="ready"&&i.length>0&&c`<${Xx} left=${i} />`}`}function Xx({left:t}){let e=t.slice(0,Zx),n=t.slice(0,3).map(({path:s})=>L(s)).join(", ");return c`<details class="left-out">
    <summary>Left out: ${n}${t.length>3&&` and ${x(t.length-3)} more`}</summary>
    <ul tabindex="0" aria-label="What was left out">
      ${e.map(({path:s,why:o})=>c`<li key=${s}><code>${L(s)}</code> <span class="dim">${Yx[o]}</span></li>`)}
      ${t.length>e.length&&c`<li class="dim">and ${x(t.length-e.length)} more</li>`}
    </ul>
  </details>`}function eS(){let{values:t}=ke(Pe),e=dr(t),n=e.length?"Used only to clone":"To choose a credential, add it under Secrets",s={autocomplete:"off",autocapitalize:"none",spellcheck:!1};return c`<div class="git-fields">
    <${Pt}
      name="gitUrl"
      label="Repository URL"
      inputmode="url"
      placeholder="https://git.example.com/team/project.git"
      help="HTTPS or SSH. It is cloned before the first step."
      ...${s}
    />
    <div class="fields">
      <${Pt} name="gitRef" label="Branch, tag or commit" placeholder="default branch" ...${s} />
      <${Pt} name="gitDepth" label="Depth (commits)" placeholder="full history" inputmode="numeric" />
      <${wn} name="gitCredential" label="Credential" help=${n} disabled=${e.length===0}>
        <option value="">None</option>
        ${e.map(o=>c`<option key=${o} value=${o}>${o}</option>`)}
      <//>
    </div>
  </div>`}var tS=["task","model","otherModel","files","gitUrl","gitRef","gitDepth","gitCredential"],ng=t=>t.startsWith("secrets");function ia({onClose:t}){let e=P(null),{errors:n,rest:s,isBusy:o,upload:i,start:r}=iS(t),[l,a]=M(!1),[u,f]=M(bn.peek().secrets.length>0);O(()=>{pi().then(()=>qh(Kt.peek()),$t),t&&e.current.querySelector("textarea").focus()},[]),O(()=>{let v=Object.keys(n);v.some(ng)&&f(!0),v.some(_=>!tS.includes(_)&&!ng(_))&&a(!0),requestAnimationFrame(()=>e.current?.querySelector('[aria-invalid="true"]')?.focus())},[n]);let d=v=>{v.preventDefault(),r()},h=v=>{v.key==="Enter"&&(v.ctrlKey||v.metaKey)&&d(v)},g=dr(bn.value);return c`<${Pe.Provider} value=${{values:bn.value,change:ho,errors:n}}>
    <form
      ref=${e}
      class="create"
      aria-label="New session"
      onSubmit=${d}
      onKeyDown=${h}
      noValidate
    >
      <div class="task-field">
        <${vs}
          name="task"
          label="Task"
          rows="4"
          placeholder="What should the agent do?"
          onPaste=${Gl(po)}
        />
        <${Hl} attachments=${po} />
        <${jl} attachments=${po} />
      </div>
      <${Qm} />
      <${tg} />
      <details open=${u} onToggle=${v=>f(v.currentTarget.open)}>
        <summary>Secrets${g.length>0&&c` <span class="dim">${g.join(", ")}</span>`}</summary>
        <${Xm} />
      </details>
      <details open=${l} onToggle=${v=>a(v.currentTarget.open)}>
        <summary>More${Lu(bn.value)&&c` <span class="dim">settings changed</span>`}</summary>
        <${Ym} />
        ${Lu(bn.value)&&c`<p><button type="button" onClick=${Bh}>Use the server's settings</button></p>`}
      </details>
      ${s.length>0&&c`<div class="failure" role="alert">${s.map(v=>c`<p key=${v}>${v}</p>`)}</div>`}
      ${i&&c`<${eg} ...${i} />`}
      <footer>
        <button type="submit" class="primary" aria-disabled=${o?"true":void 0} aria-busy=${o}>
          Start
        </button>
        ${t&&c`<button type="button" onClick=${t}>Cancel</button>`}
        <span class="dim keys"><kbd>Ctrl</kbd> + <kbd>Enter</kbd> to start</span>
      </footer>
    </form>
  <//>`}function sg(t){if(nS(t))return void po.add([...t.dataTransfer.files]);ho({from:"files"}),Gm(t.dataTransfer)}function nS({target:t,dataTransfer:{files:e}}){return t.closest(".task-field")!==null&&[...e].every(({type:n})=>n.startsWith("image/"))}function sS({from:t},e){if(t!=="files")return null;let{status:n,archive:s=null}=qt.value??{};return n?n==="reading"?e.files="The files are still being read.":n==="failed"&&(e.files="These files could not be read."):e.files="Choose a folder or an archive, or start with an empty workspace.",s}function oS(t,e,n){if(!t.body)return{errors:{task:t.message},rest:[]};let{limit_bytes:s}=t.body;return!n||t.code!=="too_large"?Nl(t,e):{errors:{files:`These files are larger than the ${Se(s)} that the server accepts.`},rest:[]}}function iS(t){let[e,n]=M({errors:{},rest:[]}),[s,o]=M(!1),[i,r]=M(null),l=P(null);O(()=>()=>t&&l.current?.abort(),[]);async function a(){if(s)return;let u=bn.value,{body:f,errors:d}=Uh(u),h=sS(u,d);if(n({errors:d,rest:[]}),Object.keys(d).length>0)return;o(!0);let g=l.current=new AbortController,v=_=>r({share:_,size:h.size,onCancel:()=>g.abort()});h&&v(0);try{f.task=await Il(f.task,po.items.value);let{id:_}=await Fl(f,h,{onProgress:v,signal:g.signal});Wh(),sa(),t?.(),ot(be(_))}catch(_){g.signal.aborted||n(oS(_,u,h)),o(!1),r(null)}}return{...e,isBusy:s,upload:i,start:a}}var rS="Write a small shell program and a test for it, run the test, and fix what fails.";function ig(){return O(()=>{Kt.value===null&&pi().catch($t)},[]),c`<section class="first-visit">
    <p>
      Palimpsest runs coding agents: give one a task, and it works on it step by step in a sandbox, with a shell and
      files. Here you can watch what it does and sees, steer it while it works, and see how its context is kept small.
    </p>
    ${Kt.value&&c`<${lS} />`}
  </section>`}function lS(){let t=Kt.value.find(Fs),e=Kt.value.some(s=>s.key_present&&!Fs(s)),n=Er();return e||!n||!Fs(n)?c`<h2>Your first session</h2>
      <${ia} />
      ${t&&c`<p class="dim"><${og} demo=${t} kind="" /> A scripted demo; no real model</p>`}`:c`<div class="choices">
      <div>
        <h2>See it in action</h2>
        <p>
          No model is set up yet, so a script stands in for one: its text is written in advance, but the tools, the
          sandbox and the events are real.
        </p>
        <${og} demo=${t} kind="primary" />
      </div>
      <div>
        <h2>Set up a model</h2>
        <p>
          Start the server with an API key in <code>OPENAI_API_KEY</code> or <code>ANTHROPIC_API_KEY</code>, or with
          your own provider in <code>PALIMPSEST_PROVIDERS</code>, which needs no key. You can set these in a
          ${" "}<code>.env</code> file in the server's directory. Then reload this page.
        </p>
      </div>
    </div>`}function og({demo:t,kind:e}){return c`<${q} kind=${e} onClick=${async()=>{let{id:s}=await Fl({task:rS,model:t.name});ot(be(s))}}>Watch the demo<//>`}var aS=300;function ra({sessionId:t,onClose:e}){let n=le(),[s,o]=M("");async function i(){let r=await Me(I(t,"fork"),s.trim()?{title:s.trim()}:{});ve("This is the fork. The original session is unchanged."),ot(be(r.id)),e()}return c`<${et} title="Fork session" onClose=${e}>
    <p>
      Creates a new session with the history up to the last finished step and a copy of the current workspace. This
      session is unchanged.
    </p>
    <div class="field">
      <label for=${n}>Title (defaults to this session's title)</label>
      <input
        id=${n}
        maxlength=${aS}
        value=${s}
        onInput=${r=>o(r.currentTarget.value)}
      />
    </div>
    <footer>
      <button type="button" onClick=${e}>Cancel</button>
      <${q} kind="primary" onClick=${i}>Fork<//>
    </footer>
  <//>`}var cS=300;function la({name:t,session:e,onClose:n,onRenamed:s,onDeleted:o}){return t==="rename"?c`<${uS} session=${e} onClose=${n} onRenamed=${s} />`:t==="fork"?c`<${ra} sessionId=${e.id} onClose=${n} />`:t!=="delete"?null:c`<${fS} session=${e} onClose=${n} onDeleted=${o} />`}function uS({session:t,onClose:e,onRenamed:n=()=>{}}){let[s,o]=M(t.title??""),i=async()=>{n(await $n(I(t.id),{title:s.trim()||null})),e()};return c`<${et} title="Rename session" onClose=${e}>
    <div class="field">
      <label for="session-title">Title</label>
      <input
        id="session-title"
        autofocus
        maxlength=${cS}
        value=${s}
        onInput=${l=>o(l.currentTarget.value)}
        onKeyDown=${l=>{l.key!=="Enter"||l.isComposing||(l.preventDefault(),i().catch($t))}}
      />
    </div>
    <footer>
      <button type="button" onClick=${e}>Cancel</button>
      <${q} kind="primary" onClick=${i}>Rename<//>
    </footer>
  <//>`}function fS({session:t,onClose:e,onDeleted:n=()=>{}}){let s=t.status==="idle"?"":"Its run will be stopped. ",o=async()=>{try{await Vt(I(t.id))}catch(i){if(i.status!==404)throw i}n()};return c`<${nn}
    title="Delete session?"
    text="${s}“${Lt(t)}” will be deleted with its history, files and sandbox. This cannot be undone."
    verb="Delete"
    onConfirm=${o}
    onClose=${e}
  />`}function aa({session:{activity:t,compaction:e}}){if(!t)return e.in_progress?"Compacting…":"Thinking…";let{verb:n,argument:s,more:o}=li(t);return c`${n} <code>${s}</code>${o}`}function rg(t,e,n){let s=URL.createObjectURL(new Blob([e],{type:n})),o=document.createElement("a");o.href=s,o.download=t,o.click(),setTimeout(()=>URL.revokeObjectURL(s),6e4)}async function _n(t){if(navigator.clipboard){await navigator.clipboard.writeText(t);return}let e=document.createElement("textarea");e.className="hidden",e.value=t;let n=document.activeElement;document.body.append(e),e.select();let s=document.execCommand("copy");if(e.remove(),n?.focus(),!s)throw new Error("The browser did not allow copying.")}function zs({text:t,name:e}){let n=async()=>{await _n(typeof t=="function"?await t():t),ve("Copied.")},s=`Copy ${e}`;return c`<${q} kind="copy" aria-label=${s} title=${s} onClick=${n}><${Xn} name="copy" /><//>`}function ca(t,e){let n={starts:[],ends:[],lines:[]},s=0;for(let o=0;o<=t.length;){let i=t.indexOf(`
`,o),r=i<0?t.length:i;if(s+=1,o===t.length&&s>1)break;dS(n,t,o,r,s,e),o=r+1}return n}function dS(t,e,n,s,o,i){let r=n,l=o;do{let a=Ju(e,r,s,i);t.starts.push(r),t.ends.push(a),t.lines.push(l),r=a,l=0}while(r<s)}function Ju(t,e,n,s){if(n-e<=s/4)return n;let o=0,i=e;for(;i<n&&o<s;){let r=t.charCodeAt(i);o+=r===9?4-o%4:1,i+=r>=55296&&r<=56319&&i+1<n?2:1}return i}function Yt(t,e,n,s){let o=[],i=e,r=(l,a)=>{l>i&&o.push({text:t.slice(i,l),scope:a}),i=Math.max(i,l)};for(let l=pS(s,e);l<s.length&&s[l].start<n;l+=1)r(Math.min(s[l].start,n),null),r(Math.min(s[l].end,n),s[l].scope);return r(n,null),o}function pS(t,e){let n=0,s=t.length;for(;n<s;){let o=n+s>>1;t[o].end<=e?n=o+1:s=o}return n}var Qu=4e3;function ft({label:t,text:e,tokens:n=[]}){let s=de(()=>lg(e),[e]),o=([i,r])=>Yt(e,i,r,n).map(Tr);return c`<pre class="long-text" tabindex="0" role="region" aria-label=${t}>
    ${s.length===1?o(s[0]):s.map((i,r)=>c`<div key=${r} class="block">${o(i)}</div>`)}
  </pre>`}var Tr=({text:t,scope:e})=>e?c`<span class=${e}>${t}</span>`:t,Ws=t=>lg(t).map(([e,n])=>t.slice(e,n));function lg(t){let e=[],n=0;for(;t.length-n>Qu;){let s=t.lastIndexOf(`
`,n+Qu),o=s>n?s:hS(t,n+Qu);e.push([n,o]),n=s>n?o+1:o}return e.push([n,t.length]),e}function hS(t,e){let n=t.charCodeAt(e);return n>=56320&&n<=57343?e-1:e}var ag=new URL("../worker.js",import.meta.url).href,mS=globalThis.trustedTypes?.createPolicy("worker",{createScriptURL:()=>ag}),hi=class{#e=null;#t=[];#n=null;#s=null;run(e,...n){return new Promise(s=>{this.#t.push({message:[e,...n],resolve:s}),this.#o()})}#o(){this.#n||this.#t.length===0||(this.#n=this.#t.pop(),this.#e??=this.#i(),this.#e.postMessage(this.#n.message))}#i(){let e=new Worker(mS?.createScriptURL("")??ag,{type:"module"});return e.onmessage=({data:n})=>{n.started?this.#s=setTimeout(()=>this.#l(),2e3):this.#r(n.result)},e.onerror=e.onmessageerror=()=>this.#l(),e}#l(){this.#e.terminate(),this.#e=null,this.#r(null)}#r(e){clearTimeout(this.#s);let{resolve:n}=this.#n;this.#n=null,n(e),this.#o()}};var ug=5e4,gS=200,$S=new Set("bash c cpp css diff dockerfile go ini java javascript json makefile markdown python ruby rust shell sql typescript xml yaml".split(" ")),cg={sh:"bash",zsh:"bash",ksh:"bash",console:"shell","shell-session":"shell",terminal:"shell",h:"c",cc:"cpp",cxx:"cpp","c++":"cpp",hpp:"cpp",hh:"cpp",scss:"css",less:"css",patch:"diff",docker:"dockerfile",golang:"go",toml:"ini",cfg:"ini",conf:"ini",properties:"ini",env:"ini",js:"javascript",mjs:"javascript",cjs:"javascript",jsx:"javascript",ts:"typescript",tsx:"typescript",json5:"json",jsonc:"json",jsonl:"json",mk:"makefile",make:"makefile",md:"markdown",py:"python",pyi:"python",py3:"python",rb:"ruby",rs:"rust",html:"xml",svg:"xml",xhtml:"xml",yml:"yaml"};function fg(t){let e=t.toLowerCase(),n=Object.hasOwn(cg,e)?cg[e]:e;return $S.has(n)?n:null}function ua(t){let e=t.slice(t.lastIndexOf("/")+1);return/^(GNU)?makefile$/i.test(e)?"makefile":/^(Docker|Container)file/i.test(e)?"dockerfile":e.includes(".")?fg(e.slice(e.lastIndexOf(".")+1))??"":""}function gi({text:t,language:e,isOpen:n=!1}){let s=ue(t),o=n||s.length>ug?null:fg(e??""),i=hg(s,o);return c`<div class="copyable">
    <pre class="code" dir="ltr">${i?Yt(s,0,s.length,i).map($i):pg(s)}</pre>
    ${!n&&c`<${zs} text=${t} name="code" />`}
  </div>`}function dg({label:t,text:e,language:n}){let s=hg(e,e.length>ug?null:n);return c`<pre class="long-text" tabindex="0" role="region" aria-label=${t} dir="ltr">
    ${s?Yt(e,0,e.length,s).map($i):pg(e)}
  </pre>`}function pg(t){let e=Ws(t);return e.length===1?t:e.map((n,s)=>c`<div key=${s} class="block">${n}</div>`)}var $i=({text:t,scope:e})=>e?c`<span class=${`hl-${e.split(".")[0]}`}>${t}</span>`:t,vS=new hi,mi=new Map;function hg(t,e){let n=`${e}
${t}`,[,s]=M(null);return O(()=>{if(!e||mi.has(n))return;let o=!0;return Or(t,e).then(i=>{bS(n,i),o&&s(n)}),()=>{o=!1}},[n]),e?mi.get(n)??null:null}function bS(t,e){mi.set(t,e),mi.size>gS&&mi.delete(mi.keys().next().value)}var Or=(t,e)=>vS.run("colors",t,e);var wS=60;function vi({name:t,args:e}){if(typeof e=="string")return c`<${mg} label="Arguments (not a JSON object)" text=${e} />`;let n=Object.entries(e).map(([r,l])=>[L(r),yS(l)]);if(n.length===0)return c`<p class="dim">No arguments.</p>`;let s=r=>t==="execute_command"&&r==="command";n.sort(([r],[l])=>s(l)-s(r));let o=([r,l])=>l.length<=wS&&!l.includes(`
`)&&!s(r),i=n.filter(o);return c`<div class="call-arguments">
    ${n.filter(r=>!o(r)).map(([r,l])=>c`<${mg} key=${r} label=${r} text=${l} isCommand=${s(r)} />`)}
    ${i.length>0&&c`<dl>
      ${i.map(([r,l])=>c`<div key=${r}><dt>${r}</dt><dd><code>${L(l)}</code></dd></div>`)}
    </dl>`}
  </div>`}var yS=t=>typeof t=="string"?t:JSON.stringify(t,null,2);function mg({label:t,text:e,isCommand:n=!1}){return c`<figure class="argument">
    <figcaption>${t}</figcaption>
    ${n?c`<${dg} label=${t} text=${ue(e)} language="bash" />`:c`<${ft} label=${t} text=${ue(e)} />`}
  </figure>`}var _S=500,kS=3e4,$g=409,xS=4e3;function fa({state:t,policy:e=t.session?.value?.approval.policy}){let n=t.approvals.value,s=P(null),{changedAt:o,decidedHere:i}=Xu(n,s),r=async(d,h)=>{i.add(d);try{await Qn("POST",I(t.id,"approvals",d),{body:h})}catch(g){throw g.status===$g?gg(t,d):i.delete(d),g}gg(t,d)},l=()=>{let d=performance.now()-o.current<_S;return d&&ve("Click ignored: the pending calls had just changed. Check them again."),d},a=async(d,h,g)=>{l()||await r(d,{decision:h,...g?{reason:g}:{}})},u=async(d,h)=>{l()||(await $n(I(t.id),{approval:await ES(t.id,h)}),await r(d,{decision:"approve"}))},f=async d=>{l()||await CS(n,h=>r(h,{decision:d}))};return c`<p class="hidden" role="status">${TS(n)}</p>
    <section class="approvals" aria-label="Approvals" ref=${s} hidden=${n.length===0}>
      ${n.length>1&&c`<div class="approvals-all">
        <p>${n.length} calls are waiting. None starts until all are decided.</p>
        <${q} onClick=${()=>f("approve")}>Approve all<//>
        <${q} kind="danger" onClick=${()=>f("deny")}>Deny all<//>
      </div>`}
      ${n.map((d,h)=>c`<${OS}
          key=${d.call_id}
          approval=${d}
          place=${n.length>1?`${h+1} of ${n.length}`:""}
          decide=${a}
          allow=${SS(e,d.name)?u:null}
        />`)}
    </section>`}var SS=(t,e)=>typeof t=="object"&&t.tools.includes(e);async function ES(t,e){let{policy:n,timeout_s:s}=(await W(I(t))).approval,o=n.tools.filter(r=>r!==e);return{policy:o.length>0||n.commands.length>0?{...n,tools:o}:"never",timeout_s:s}}function gg(t,e){t.approvals.value=t.approvals.value.filter(({call_id:n})=>n!==e)}async function CS(t,e){let n=0;for(let{call_id:s}of t)try{await e(s)}catch(o){if(o.status!==$g)throw o;n+=1}n&&ve(`${n} of ${t.length} calls had already been decided.`)}var TS=t=>t.length?`Waiting for approval: ${t.map(({name:e})=>Bt(e)).join(", ")}.`:"";function Xu(t,e){let n=t.map(({call_id:r})=>r),s=P(-1/0),{current:o}=P(new Set),i=P([]);return O(()=>{i.current.length>0&&(s.current=performance.now());let r=i.current.filter(u=>!n.includes(u));if(i.current=n,!(r.filter(u=>o.delete(u)).length>0)||document.activeElement!==document.body)return;(e.current.querySelector("h2")??document.querySelector(".composer textarea"))?.focus()},[n.join()]),{changedAt:s,decidedHere:o}}function OS({approval:t,place:e,decide:n,allow:s}){let{call_id:o,name:i,arguments:r,expires_at:l}=t,a=le(),[u,f]=M(!1),[d,h]=M(""),g=()=>n(o,"deny",d.trim());return c`<article class="approval" aria-labelledby=${a} data-call-id=${o}>
    <header>
      <h2 id=${a} tabindex="-1">Run <code>${Bt(i)}</code>?</h2>
      ${e&&c`<span class="dim">${e}</span>`}
      ${l&&c`<${ef} until=${Date.parse(l)} />`}
    </header>
    <${vi} name=${i} args=${r} />
    ${u&&c`<${AS} value=${d} onInput=${h} onEnter=${g} />`}
    <footer>
      <${q} kind="primary" data-decision="approve" onClick=${()=>n(o,"approve")}>Approve<//>
      <${q} kind="danger" data-decision="deny" onClick=${g}>${d.trim()?"Deny with reason":"Deny"}<//>
      ${s&&c`<${q} onClick=${()=>s(o,i)}>Approve, and allow ${Bt(i)} in this session<//>`}
      <button type="button" class="plain" aria-expanded=${u} onClick=${()=>f(!u)}>
        ${u?"Remove reason":"Add reason"}
      </button>
    </footer>
  </article>`}function AS({value:t,onInput:e,onEnter:n}){let s=le(),o=P(null);return O(()=>(o.current.focus(),()=>e("")),[]),c`<div class="field">
    <label for=${s}>Reason for the denial (shown to the model)</label>
    <input
      ref=${o}
      id=${s}
      maxlength=${xS}
      value=${t}
      onInput=${r=>e(r.target.value)}
      onKeyDown=${r=>{r.key==="Enter"&&!r.isComposing&&n().catch($t)}}
    />
  </div>`}function ef({until:t,verb:e="auto-deny",end:n="timed out: denied"}){let s=t-vn.value;if(s<=0)return c`<span class="countdown badge bad">${n}</span>`;let o=`${e} in ${_e(Math.ceil(s/1e3)*1e3)}`;return c`<span role="timer" class="countdown badge ${s<kS?"bad":"waiting"}">${o}</span>`}function vg({session:{id:t,last_seq:e,approval:n}}){let s=de(()=>({id:t,approvals:C([])}),[t]);return O(()=>{let o=!0,i=({items:r})=>o&&(s.approvals.value=r);return W(I(t,"approvals")).then(i,$t),()=>o=!1},[t,e]),c`<div class="row-approvals"><${fa} state=${s} policy=${n.policy} /></div>`}var tf=4;function bi({label:t,name:e,items:n,kind:s=""}){let o=le(),i=P(null),r=P(null),[l,a]=M(!1);return c`<button
      ref=${i}
      type="button"
      class="menu-button ${s}"
      aria-label=${e}
      aria-haspopup="menu"
      aria-expanded=${l}
      popovertarget=${o}
    >
      ${t}
    </button>
    <div
      ref=${r}
      id=${o}
      popover="auto"
      role="menu"
      class="menu"
      aria-label=${e??t}
      onBeforeToggle=${({newState:f})=>f==="open"&&RS(r.current,i.current)}
      onToggle=${({newState:f})=>{a(f==="open"),f==="open"&&wg(r.current,0)}}
      onKeyDown=${f=>LS(f,r.current)}
    >
      ${n.map(f=>c`<${MS} key=${f.label} item=${f} menu=${r} />`)}
    </div>`}function MS({item:{label:t,onClick:e,kind:n=""},menu:s}){return c`<button type="button" role="menuitem" tabindex="-1" class="plain ${n}" onClick=${()=>{s.current.hidePopover(),e()}}>
    ${t}
  </button>`}function RS(t,e){let{top:n,bottom:s,right:o}=e.getBoundingClientRect(),i=innerHeight-s>t.children.length*40||s<innerHeight/2;t.style.right=`${Math.max(tf,document.documentElement.clientWidth-o)}px`,t.style.top=i?`${s+tf}px`:"auto",t.style.bottom=i?"auto":`${innerHeight-n+tf}px`}var bg=t=>[...t.querySelectorAll('[role="menuitem"]')];function wg(t,e){let n=bg(t);n.at(e%n.length)?.focus()}function LS(t,e){let n=bg(e).indexOf(document.activeElement),s={ArrowDown:n+1,ArrowUp:n-1,Home:0,End:-1}[t.key];t.key==="Tab"&&e.hidePopover(),s!==void 0&&(t.preventDefault(),wg(e,s))}function _g({session:t,name:e,onChanged:n,openDialog:s}){return c`<li class="session-row ${t.unseen?"unseen":""}" data-session-id=${t.id}>
    <div class="row-name">
      <a href=${be(t.id)}>${e}</a>
      ${t.unseen&&c`<span class="hidden">, not opened since it ended</span>`}
      <${PS} session=${t} />
    </div>
    <div class="row-status"><${si} session=${t} /><${FS} session=${t} /></div>
    <span class="row-model dim">${t.model}</span>
    <span class="row-steps numbers">${NS(t.steps,"step")}</span>
    <span class="row-cost numbers"><${zS} usage=${t.usage} /></span>
    <span class="row-context numbers"><${WS} context=${t.context} /></span>
    <span class="row-time dim">
      <${Ot} time=${t.status==="running"?t.created_at:t.placed_at} />
    </span>
    <${BS} session=${t} name=${e} onChanged=${n} openDialog=${s} />
    ${t.status==="awaiting_approval"&&c`<${vg} session=${t} />`}
  </li>`}function PS({session:t}){return t.status==="idle"?t.error?c`<${IS} error=${t.error} isBad=${ms(t)} />`:c`<${DS} session=${t} />`:t.status==="awaiting_approval"?null:c`<p class="row-now dim"><${aa} session=${t} /></p>`}function IS({error:t,isBad:e}){let n=L(t.detail||t.title||t.code||"");return c`<p class="row-error ${e?"":"dim"}" title=${n}>${n}</p>`}var yg=200;function DS({session:{output:t,answer:e}}){let n=t==null?Lp((e??"").slice(0,yg)):L(JSON.stringify(t));return n?c`<p class="row-result dim">${n.slice(0,yg)}</p>`:null}var NS=(t,e)=>`${x(t)} ${e}${t===1?"":"s"}`;function FS({session:{compaction:t,queue:e}}){return c`${t.in_progress&&c`<${xe} kind="running">compacting<//>`}
  ${e.pending>0&&c`<${xe}>${x(e.pending)} queued<//>`}`}function zS({usage:{cost_usd:t}}){return t!==null?nt(t):c`<span class="unknown" title="The model's price is unknown."><span class="unit">cost </span>unknown</span>`}function WS({context:{tokens:t,usable:e}}){return e?c`${lt(t)}<span class="dim"> of ${lt(e)}<span class="unit"> tokens</span></span>`:`${lt(t)} tokens`}function BS({session:t,name:e,onChanged:n,openDialog:s}){let o=async()=>{n(await Me(I(t.id,"cancel"))),ve(`Cancelling “${e}”…`)},i=[{label:"Rename",onClick:()=>s("rename",t)},{label:"Fork",onClick:()=>s("fork",t)},{label:"Delete",onClick:()=>s("delete",t),kind:"danger"}];return t.status!=="idle"&&i.splice(1,0,{label:"Cancel run",onClick:()=>o().catch($t)}),c`<div class="row-menu">
    <${bi} label="⋯" name="Actions for ${e}" items=${i} kind="plain" />
  </div>`}var Sg={"":"All",needs_attention:"Needs you",running:"Running",awaiting_approval:"Awaiting approval",awaiting_client:"Awaiting client",idle:"Idle"},qS={"":"sessions",needs_attention:"sessions that need you",running:"running sessions",awaiting_approval:"sessions awaiting approval",awaiting_client:"sessions awaiting a client",idle:"idle sessions"},US=250,jS=3e3,kg={top:0};function Eg(){let t=P(null),[e,n]=M(null),s=(f,d)=>n({name:f,session:d});O(()=>{gs.value="Sessions"},[]),HS(),pe(()=>{t.current.scrollTop=kg.top},[]);let o=f=>kg.top=f.currentTarget.scrollTop,{status:i,q:r}=re.filter.value,l=re.loaded.value&&re.items.value.length===0&&!i&&!r,{isOver:a,...u}=Vl(f=>{l||(hs.value=!0),sg(f)});return c`<main
    class="page sessions ${a?"drop-target":""}"
    ref=${t}
    onScroll=${o}
    ...${u}
  >
    <${VS} isFirst=${l} />
    ${hs.value&&!l&&c`<${ia} onClose=${()=>hs.value=!1} />`}
    ${re.problem.value&&c`<${ge} problem=${re.problem.value} onRetry=${()=>GS()} />`}
    ${l?c`<${ig} />`:c`<${KS} /><${ZS} dialog=${e} openDialog=${s} />`}
    ${e&&c`<${YS} ...${e} onClose=${()=>n(null)} />`}
    <${n1} />
  </main>`}function HS(){let{status:t="",q:e=""}=Be.value.query,n=P(!t&&!e);O(()=>{n.current?Pn(re.filter.peek()):re.setFilter({status:t in Sg?t:"",q:e}),n.current=!1},[t,e])}function GS(){if(re.follower.value?.state.value!=="closed")return re.load({keep:!0});re.problem.value=null,re.close(),re.open()}function VS({isFirst:t}){let e=()=>hs.value=!hs.value;return c`<div class="page-head">
    <h1>${t?"Welcome":"Sessions"}</h1>
    <${Kl} follower=${re.follower.value} />
    ${!t&&c`<button type="button" class="primary" aria-expanded=${hs.value} onClick=${e}>
      New session
    </button>`}
  </div>`}function KS(){let{status:t,q:e}=re.filter.value,[n,s]=M(e),o=P(e),i=r=>Pn({status:r.currentTarget.value});return O(()=>{if(n===e)return;let r=setTimeout(()=>{o.current=n,Pn({q:n})},US);return()=>clearTimeout(r)},[n]),O(()=>{e!==o.current&&s(e),o.current=e},[e]),c`<div class="filter" role="search">
    <input
      type="search"
      aria-label="Search titles and tasks"
      placeholder="Search titles and tasks"
      maxlength="500"
      value=${n}
      onInput=${r=>s(r.currentTarget.value)}
    />
    <select aria-label="Status" value=${t} onChange=${i}>
      ${Object.entries(Sg).map(([r,l])=>c`<option key=${r} value=${r}>${l}</option>`)}
    </select>
  </div>`}function YS({name:t,session:e,onClose:n}){let s=re.items.value.find(({id:r})=>r===e.id)??e;return c`<${la} ...${{name:t,session:s,onClose:n,onRenamed:r=>re.put(r),onDeleted:()=>{n(),re.removed(s.id)}}} />`}function ZS({dialog:t,openDialog:e}){let n=re.items.value,s=re.loading.value,o=XS(n,t);if(n.length===0)return c`<${e1} isLoading=${s||!re.loaded.value} />`;let i=Kh.map(([r,l])=>[r,n.filter(l)]);return c`<div class="session-sections" aria-busy=${s} ...${o}>
      ${i.filter(([,r])=>r.length>0).map(([r,l])=>c`<${JS} key=${r} ...${{name:r,items:l,openDialog:e}} />`)}
    </div>
    <${t1} />`}function JS({name:t,items:e,openDialog:n}){let s=le(),o=t==="Done"&&re.nextCursor.value!==null,{current:i}=P(new WeakMap),r=l=>(i.has(l)||i.set(l,c`<${QS} key=${l.id} ...${{session:l,openDialog:n}} />`),i.get(l));return c`<section aria-labelledby=${s}>
    <h2 id=${s}>${t} <span class="dim numbers">${x(e.length)}${o&&"+"}</span></h2>
    <ul class="session-list" aria-label=${t}>
      ${e.map(r)}
    </ul>
  </section>`}function QS({session:t,openDialog:e}){let n=s=>re.put(s);return c`<${_g} ...${{session:t,name:Lt(t),onChanged:n,openDialog:e}} />`}function XS(t,e){let n=P(null),s=P(null);return O(()=>{if(s.current===null||document.activeElement!==document.body)return;let{id:r,index:l}=s.current;t.some(a=>a.id===r)||xg(n.current)[Math.min(l,t.length-1)]?.querySelector("a").focus()},[t,e]),{ref:n,onFocusIn:({target:r})=>{if(!n.current)return;let l=r.closest(".session-row");s.current=l&&{id:l.dataset.sessionId,index:xg(n.current).indexOf(l)}},onFocusOut:({relatedTarget:r})=>{r&&!n.current?.contains(r)&&!r.closest("dialog")&&(s.current=null)}}}var xg=t=>[...t?.querySelectorAll(".session-row")??[]];function e1({isLoading:t}){if(re.problem.value)return null;if(t)return c`<p class="dim" aria-busy="true">Loading…</p>`;let{status:e,q:n}=re.filter.value;return c`<p class="dim">No ${qS[e]}${n&&` match “${L(n)}”`}</p>`}function t1(){let t=P(null),e=re.nextCursor.value!==null;return O(()=>{if(!e)return;let n=new IntersectionObserver(([{isIntersecting:s}])=>s&&re.more(),{rootMargin:"300px"});return n.observe(t.current),()=>n.disconnect()},[e,re.items.value.length]),e?c`<p ref=${t} class="more">
    <button type="button" aria-disabled=${re.loading.value} onClick=${()=>re.more()}>Load more</button>
  </p>`:null}function n1(){let[t,e]=M("");return o1(e),O(()=>{let n=new Map,s=null,o=i=>{i.status!=="running"&&(n.set(i.id,`${Lt(i)}: ${s1(i)}.`),s??=setTimeout(()=>{let r=`${n.size} sessions have ended or are waiting for you.`;e(n.size>3?r:[...n.values()].join(" ")),n.clear(),s=null},jS))};return re.watchers.add(o),()=>{clearTimeout(s),re.watchers.delete(o)}},[]),c`<p class="hidden" role="status">${t}</p>`}var s1=({status:t,outcome:e})=>(t==="idle"?e:t)?.replace("_"," ")??"idle";function o1(t){let{status:e,q:n}=re.filter.value,s=re.loaded.value;O(()=>{if(!s||!e&&!n)return;let o=re.items.value.length,i=re.nextCursor.value===null?"":" or more";t(`${x(o)}${i} session${o===1?"":"s"} found.`)},[s,e,n])}var i1=.8,r1={reported:"reported by the provider",estimated:"estimated",assumed:"window assumed"},da={near:"near the limit",over:"over the limit"};function l1({tokens:t,usable:e}){return t>e?"over":t>=e*i1?"near":"calm"}function Cg({context:t}){let{tokens:e,limit:n,usable:s,source:o}=t;if(!n)return c`<span class="gauge dim">no context yet</span>`;let i=l1(t),r=`${x(e)} of ${x(s)} usable tokens, in a window of ${x(n)};
    ${r1[o]??o}${da[i]?`; ${da[i]}`:""}`.replace(/\s+/g," ");return c`<span class="gauge ${i}" title=${r}>
    <span
      class="ring"
      style=${{"--share":Fe(Math.min(1,e/s))}}
      role="meter"
      aria-label="Context"
      aria-valuemin="0"
      aria-valuemax=${n}
      aria-valuenow=${Math.min(e,n)}
      aria-valuetext=${r}
    ></span>
    <span class="numbers" aria-hidden="true">${lt(e)} of ${lt(s)}</span>
    ${da[i]&&c`<span class="badge ${i==="over"?"bad":"warn"}" aria-hidden="true">${da[i]}</span>`}
  </span>`}var Tg=320,Og=200,pa=C(null);function ha({path:t,media_type:e,width:n,height:s}){let o=n&&s?`, ${n} × ${s}`:"";return L(`Image ${t??`(${e.replace("image/","").toUpperCase()})`}${o}`)}function nf({sessionId:t,part:e}){let[n,s]=M(!1),o=ha(e);return e.digest?n?c`<p class="dim">${o}, could not be loaded</p>`:c`<figure class="message-image">
    <button type="button" aria-label=${`Open ${o}`} onClick=${()=>pa.value={sessionId:t,part:e}}>
      <img
        src=${I(t,"images",e.digest)}
        alt=${o}
        loading="lazy"
        ...${Ag(e)}
        onError=${()=>s(!0)}
      />
    </button>
    ${e.compacted_at&&c`<figcaption class="dim">Cleared from the context</figcaption>`}
  </figure>`:c`<p class="dim">${o}, not shown</p>`}function go({sessionId:t,parts:e}){let n=e.filter(({type:s})=>s==="image");return n.length===0?null:c`<div class="message-images">
    ${n.map((s,o)=>c`<${nf} key=${s.id??o} sessionId=${t} part=${s} />`)}
  </div>`}function Ag({width:t,height:e}){if(!t||!e)return{width:Tg,height:Og};let n=Math.min(1,Tg/t,Og/e);return{width:Math.max(1,Math.round(t*n)),height:Math.max(1,Math.round(e*n))}}var Mg=t=>Ag(t).height+12;function Rg(){let t=()=>pa.value=null;if(O(()=>t,[]),!pa.value)return null;let{sessionId:e,part:n}=pa.value,s=I(e,"images",n.digest),o=ha(n);return c`<${et} title=${o} wide=${!0} onClose=${t}>
    <div class="whole-image" tabindex="0" role="region" aria-label=${o}><img src=${s} alt=${o} /></div>
    <footer>
      <span class="dim">${L(n.media_type)}${n.bytes?`, ${Se(n.bytes)}`:""}</span>
      <a class="button" href=${s} download=${a1(n)}>Download</a>
    </footer>
  <//>`}function a1({path:t,digest:e,media_type:n}){return t?.slice(t.lastIndexOf("/")+1)??`${e.slice(0,16)}.${n.replace("image/","")}`}var Ar=C(null);async function ma(){Ar.value=await W("/v1/nodes")}var Mr=()=>(Ar.value?.items.length??0)>0;function sf(t){let{name:e}=Ar.value?.items.find(n=>n.id===t)??{};return e?`${e} (${t.slice(-6)})`:t.slice(-6)}var Dn=t=>t.input_tokens+t.cache_read_tokens+t.cache_write_tokens,kn=t=>Dn(t)+t.output_tokens;function xn(t){let e=Dn(t);return e===0?null:t.cache_read_tokens/e}function ga(t){let e={...c1};for(let n of t){for(let o of Lg)e[o]+=n[o];let s=e.cost_usd!==null&&n.cost_usd!==null;e.cost_usd=s?e.cost_usd+n.cost_usd:null}return e}var Lg=["input_tokens","cache_read_tokens","cache_write_tokens","output_tokens","reasoning_tokens"],c1={...Object.fromEntries(Lg.map(t=>[t,0])),cost_usd:0};function ts({name:t,value:e,children:n}){return c`<div class="figure">
    <dt>${t}</dt>
    <dd>
      <span class="figure-value numbers">${e}</span>
      ${n&&c`<span class="dim">${n}</span>`}
    </dd>
  </div>`}function $a({usage:t,atLeast:e,children:n}){let s=Dn(t);return c`<dl class="figures">
    <${ts} name="Cost" value=${Ig(t.cost_usd,e)} />
    <${ts} name="Input" value=${lt(s)}>
      tokens: ${x(t.input_tokens)} new, ${x(t.cache_read_tokens)} cached,
      ${" "}${x(t.cache_write_tokens)} written to the cache
    <//>
    <${ts} name="Output" value=${lt(t.output_tokens)}>
      tokens, ${x(t.reasoning_tokens)} of them reasoning
    <//>
    <${ts} name="Cache reuse" value=${Fe(xn(t))}>of input tokens came from the cache<//>
    ${n}
  </dl>`}function Ig(t,e){return t!==null?nt(t):e?`at least ${nt(e)}`:"unknown"}var Dg=["New input","Cache read","Cache write","Output","Reuse","Cost"];function va(){return Dg.map(t=>c`<th key=${t} scope="col" class="number">${t}</th>`)}function Rr({usage:t,atLeast:e}){return[x(t.input_tokens),x(t.cache_read_tokens),x(t.cache_write_tokens),x(t.output_tokens),Fe(xn(t)),Ig(t.cost_usd,e)].map((s,o)=>c`<td key=${Dg[o]} class="number">${s}</td>`)}function ns({name:t,children:e}){return c`<div class="table-box" role="region" aria-label=${t} tabindex="0">
    <table>
      ${e}
    </table>
  </div>`}var Pg=100;function ba(t){let[e,n]=M(Pg),s=t.length-e,o=s>0&&c`<button type="button" onClick=${()=>n(e+5*Pg)}>
      Show earlier steps (${x(s)})
    </button>`;return[t.slice(-e).reverse(),o]}var u1=[["new","input_tokens"],["new","cache_write_tokens"],["cached","cache_read_tokens"],["out","output_tokens"]];function wa({usage:t,most:e}){let n=s=>`${e===0?0:t[s]/e*100}%`;return c`<span class="usage-bar" aria-hidden="true">
    ${u1.map(([s,o])=>c`<span key=${o} class=${s} style=${{width:n(o)}}></span>`)}
  </span>`}function ya(){return c`<span class="legend">
    <span class="new"></span> new input <span class="cached"></span> cached <span class="out"></span> output
  </span>`}var f1={ready:void 0,draining:"waiting",lost:"failed"};function Ng(){if(!Mr())return null;let{items:t,waiting:e}=Ar.value;return c`<section aria-labelledby="nodes">
    <h2 id="nodes">Nodes</h2>
    ${e>0&&c`<p class="dim">${x(e)} sessions wait for a worker.</p>`}
    <${ns} name="Nodes">
      <thead>
        <tr>
          <th scope="col">Node</th>
          <th scope="col">Role</th>
          <th scope="col">Status</th>
          <th scope="col" class="number">Sessions</th>
          <th scope="col" class="number">Slots</th>
          <th scope="col">Version</th>
          <th scope="col">Last seen</th>
        </tr>
      </thead>
      <tbody>
        ${t.map(n=>c`<${d1} key=${n.id} node=${n} />`)}
      </tbody>
    <//>
  </section>`}function d1({node:t}){return c`<tr>
    <th scope="row">${sf(t.id)}</th>
    <td>${t.role}</td>
    <td><${xe} kind=${f1[t.status]}>${t.status}<//></td>
    <td class="number">${x(t.sessions)}</td>
    <td class="number">${x(t.slots)}</td>
    <td>${t.version}</td>
    <td><${Ot} time=${t.seen_at} /></td>
  </tr>`}function Fg({state:t,session:e}){return O(()=>{ma().catch(()=>{})},[t,e.node]),O(()=>{Mr()&&W(I(t.id)).then(({node:n})=>t.update({node:n})).catch(()=>{})},[t,t.runs.value,e.status,e.steps,Mr()]),!e.node||!Mr()?null:c`<span class="dim node" title="Node ${e.node}">on ${sf(e.node)}</span>`}var zg={name:"",value:""};function Wg({sessionId:t,onClose:e}){let{items:n,problem:s,load:o}=p1(t),[i,r]=M(zg),[l,a]=M(null),u=P(null),f=h=>{r({name:h,value:""}),u.current.querySelector("input[type=password]").focus()},d=async()=>{await Vt(I(t,"secrets",l)),await o()};return c`<${et} title="Secrets" onClose=${e}>
    <p class="dim">
      Commands get them as environment variables, from the next step on. Values are never shown again; in outputs they
      are replaced by <code>[secret NAME]</code>. Forks don't get them.
    </p>
    ${s&&c`<${ge} problem=${s} onRetry=${o} />`}
    ${n?.length===0&&c`<p>No secrets yet.</p>`}
    ${n?.length>0&&c`<ul class="secret-list" aria-label="Secrets">
      ${n.map(h=>c`<${h1} key=${h.name} item=${h} onReplace=${f} onDelete=${a} />`)}
    </ul>`}
    <div ref=${u}>
      <${m1} ...${{sessionId:t,values:i,setValues:r,items:n??[],onSaved:o}} />
    </div>
    <footer><button type="button" onClick=${e}>Done</button></footer>
    ${l&&c`<${nn}
      title="Delete secret?"
      text="Commands no longer get ${l}, and its value is no longer replaced in new outputs."
      verb="Delete"
      onConfirm=${d}
      onClose=${()=>a(null)}
    />`}
  <//>`}function p1(t){let[e,n]=M(null),[s,o]=M(null),i=async()=>{try{n((await W(I(t,"secrets"))).items),o(null)}catch(r){o(r)}};return O(()=>{i()},[t]),{items:e,problem:s,load:i}}function h1({item:{name:t,created_at:e,updated_at:n},onReplace:s,onDelete:o}){let i=n===e?"added":"replaced";return c`<li>
    <code>${t}</code>
    <span class="dim" title=${`added ${ze(e)}`}>${i} <${Ot} time=${n} /></span>
    <button type="button" aria-label=${`Replace ${t}`} onClick=${()=>s(t)}>Replace</button>
    <button type="button" class="danger" aria-label=${`Delete ${t}`} onClick=${()=>o(t)}>Delete</button>
  </li>`}function m1({sessionId:t,values:e,setValues:n,items:s,onSaved:o}){let[i,r]=M({}),l=s.some(({name:f})=>f===e.name.trim());async function a(){let f=e.name.trim(),d={name:Mu(f),value:Ru(e.value)};if(d.name||d.value)return r(d);try{await Qn("PUT",I(t,"secrets",f),{body:{value:e.value}})}catch(h){let[g]=h.body.errors??[];return r({[g?.field.startsWith("value")?"value":"name"]:g?.message??h.message})}return r({}),n(zg),o()}let u=f=>n({...e,...f});return c`<${Pe.Provider} value=${{values:e,change:u,errors:i}}>
    <div class="secret-row" role="group" aria-label=${l?"Replace a secret":"Add a secret"}>
      <${Yu} />
      <${Zu} />
      <${q} onClick=${a}>${l?"Replace":"Add"}<//>
    </div>
  <//>`}var of={maxSteps:"max_steps",maxSeconds:"max_seconds",maxCost:"max_cost_usd",maxTokens:"max_tokens"};function qg({model:t,limits:e,approval:{policy:n,timeout_s:s}}){let o=typeof n=="object"?n:{tools:[],commands:[]};return{model:t,...Object.fromEntries(Object.entries(of).map(([i,r])=>[i,Bg(e[r])])),approval:typeof n=="object"?"some":n,tools:o.tools,commands:o.commands.join(`
`),timeout:Bg(s)}}var Bg=t=>t==null?"":String(t);function Ug(t,e){let n={},s={};t.model.trim()!==e.model&&(s.model=t.model.trim()),t.model.trim()||(n.model="Enter the model name as provider/model.");let o=$1(t,e,n);return Object.keys(o).length&&(s.limits=o),g1(t,e,["approval","tools","commands","timeout"])&&(s.approval=v1(t,n)),{body:s,errors:n}}var g1=(t,e,n)=>n.some(s=>JSON.stringify(t[s])!==JSON.stringify(e[s]));function $1(t,e,n){let s=Object.keys(of).filter(o=>t[o].trim()!==e[o]);return Object.fromEntries(s.map(o=>[of[o],jg(t,o,n)]))}function v1(t,e){let n=t.commands.split(`
`).filter(i=>i.trim()),s=jg(t,"timeout",e);return{policy:t.approval==="some"?{tools:t.tools,commands:n}:t.approval,timeout_s:s}}function jg(t,e,n){let s=t[e].trim().replaceAll(",","");if(s==="")return null;let o=Number(s);return Number.isFinite(o)||(n[e]="Enter a number."),o}function Hg({session:t,onClose:e}){let[n]=M(()=>qg(t)),[s,o]=M(n),[{errors:i,rest:r},l]=M({errors:{},rest:[]});async function a(){let{body:f,errors:d}=Ug(s,n);if(l({errors:d,rest:[]}),!(Object.keys(d).length>0))try{Object.keys(f).length>0&&await $n(I(t.id),f),e()}catch(h){l(Nl(h))}}let u=f=>o({...s,...f});return c`<${et} title="Session settings" onClose=${e}>
    <${Pe.Provider} value=${{values:s,change:u,errors:i}}>
      <p class="dim">Changes take effect at the next step.</p>
      <${b1} />
      <${oa} />
      <${w1} />
    <//>
    ${r.length>0&&c`<div class="failure" role="alert">${r.map(f=>c`<p key=${f}>${f}</p>`)}</div>`}
    <footer>
      <button type="button" onClick=${e}>Cancel</button>
      <${q} kind="primary" onClick=${a}>Save<//>
    </footer>
  <//>`}function b1(){let{values:t}=ke(Pe),e=le();O(()=>{pi().catch(()=>{})},[]);let n=Kt.value??[],s=n.find(({name:i})=>i===t.model),o=s&&!s.key_present?"The server has no key for this model's provider.":void 0;return c`<${Pt}
      name="model"
      label="Model"
      help=${o}
      list=${e}
      autocomplete="off"
      autocapitalize="none"
      spellcheck="false"
    />
    <datalist id=${e}>
      ${n.map(({name:i,key_present:r})=>c`<option key=${i} value=${i}>${r?"":"no key"}</option>`)}
    </datalist>`}function w1(){return c`<fieldset>
    <legend>Limits</legend>
    <p class="help">A run stops at a limit and can be resumed. Leave a field empty for no limit.</p>
    <div class="fields">
      <${yn} name="maxSteps" label="Max steps per run" placeholder="no limit" />
      <${yn} name="maxSeconds" label="Max seconds per run" placeholder="no limit" />
      <${yn} name="maxCost" label="Max total cost ($)" placeholder="no limit" />
      <${yn} name="maxTokens" label="Max total tokens" placeholder="no limit" />
    </div>
  </fieldset>`}var y1=500;function Vg({state:t,session:e}){let[n,s]=M(null),o=()=>s(null),i=[{label:"Export as OpenAI messages",onClick:()=>Gg(t.id,"openai")},{label:"Export as Anthropic messages",onClick:()=>Gg(t.id,"anthropic")}],r=[{label:"Rename",onClick:()=>s("rename")},{label:"Settings",onClick:()=>s("settings")},{label:"Secrets",onClick:()=>s("secrets")},{label:"Fork",onClick:()=>s("fork")},...i,{label:"Delete",kind:"danger",onClick:()=>s("delete")}],l=()=>{ve("Session deleted."),ot("#/")};return c`<${bi} label="Actions" items=${e.kind==="subagent"?i:r} />
    ${n==="settings"&&c`<${Hg} session=${e} onClose=${o} />`}
    ${n==="secrets"&&c`<${Wg} sessionId=${t.id} onClose=${o} />`}
    <${la} name=${n} session=${e} onClose=${o} onDeleted=${l} />`}async function Gg(t,e){try{rg(`${t}.${e}.json`,await _1(t,e),"application/json")}catch(n){$t(n)}}async function _1(t,e){let n=[],s=null;do{let o=new URLSearchParams({format:e,limit:y1});s!==null&&o.set("after",s);let i=await W(`${I(t,"messages")}?${o}`);n.push(...i.items),s=i.next_cursor}while(s!==null);return JSON.stringify({format:e,messages:n},null,2)}function Bs({tokens_before:t,tokens_after:e}){return e==null||!t?null:(t-e)/t}function Kg(t,e){let n=new Map(t.map(s=>[s.message_id,s]));for(let[s,o]of e){let i=n.get(s);(!i||i.finish_reason===null)&&n.set(s,{...k1,...i,...x1(o)})}return[...n.values()].sort((s,o)=>s.step-o.step||s.attempt-o.attempt)}var Yg={input_tokens:0,cache_read_tokens:0,cache_write_tokens:0,output_tokens:0,reasoning_tokens:0,cost_usd:0},k1={finish_reason:null,usage:Yg,compaction_round:null,duration_ms:null};function x1({finished_at:t,...e}){return!t||!e.started_at?e:{...e,duration_ms:Date.parse(t)-Date.parse(e.started_at)}}function Zg(t){return t.filter(({step:e},n)=>t[n+1]?.step!==e)}function Jg(t,e,n){let s=new Map(t.map(i=>[i.round,i])),o=i=>s.set(i.round,{...E1,...s.get(i.round),...S1(i)});for(let i of e)s.get(i.round)?.status!==i.status&&o(i);for(let i of n.values())s.has(i.round)||o({...i,status:"running"});return[...s.values()].sort((i,r)=>i.round-r.round)}function S1(t){return Object.fromEntries(Object.entries(t).filter(([,e])=>e!=null))}var E1={rung:null,first_message_id:null,last_message_id:null,messages_compacted:0,outputs_pruned:0,tokens_after:null,summary:null,error:null,usage:Yg,duration_ms:0};function Qg(t,e,n){let o=[...e.filter(({status:r})=>r==="completed"||r==="reverted").map(r=>C1(t,r)),...n.map(r=>T1(t,r))];o.sort((r,l)=>r.place-l.place||r.time-l.time);let i=Map.groupBy(o,({place:r})=>r);for(let[r,l]of i){let a=r===0?(t[0]?.step??1)-1:t[r-1].step;l.forEach((u,f)=>u.x=a+(f+1)/(l.length+1))}return o}function C1(t,e){let n=Date.parse(e.created_at)+e.duration_ms;return{...Xg("round",e),key:`round-${e.round}`,time:n,place:O1(t,e,n)}}function T1(t,e){let n=Date.parse(e.at);return{...Xg("prune",e),key:`prune-${e.seq}`,time:n,place:e$(t,n)}}function Xg(t,e){return{kind:t,item:e,before:e.tokens_before,after:e.tokens_after}}function O1(t,{round:e,status:n},s){let o=r=>n==="reverted"?r.compaction_round===e:r.compaction_round>=e,i=t.findIndex(r=>r.compaction_round!==null&&o(r));return i>=0?i:e$(t,s)}function e$(t,e){let n=0,s=t.length;for(;n<s;){let o=n+s>>1;Date.parse(t[o].started_at)<e?n=o+1:s=o}return n}function t$(t,e){let n=t.map(o=>({x:o.step,tokens:o.context.tokens,step:o}));for(let o of e)n.push({x:o.x,tokens:o.before,mark:o,edge:0},{x:o.x,tokens:o.after,mark:o,edge:1});n.sort((o,i)=>o.x-i.x||(o.edge??0)-(i.edge??0));let s=t[0]?.context??{usable:null,limit:null};for(let o of n)s=o.step?.context??s,o.usable=s.usable||null,o.limit=s.limit||null;return n}var n$=500,A1=600,M1="prune.completed,compaction.failed,compaction.reverted",rf=new WeakMap;function wi(t){return rf.has(t)||rf.set(t,new lf(t)),rf.get(t)}var lf=class{progress=C(0);problem=C(null);open=C(new Set);selected=C(null);#e;#t=C(new Map);#n=C([]);#s=C([]);#o=null;#i=0;#l=null;#r=Promise.resolve();#a=null;constructor(e){this.#e=e,this.attempts=gt(()=>Kg([...this.#t.value.values()],e.steps.value)),this.steps=gt(()=>Zg(this.attempts.value)),this.rounds=gt(()=>Jg(this.#n.value,e.rounds.value,e.working.value)),this.prunes=gt(()=>R1(this.#c("prune.completed"),e.prunes.value)),this.failures=gt(()=>Map.groupBy(this.#c("compaction.failed"),({round:n})=>n)),this.reverts=gt(()=>new Map(this.#c("compaction.reverted").map(n=>[n.round,n]))),this.marks=gt(()=>Qg(this.steps.value,this.rounds.value,this.prunes.value)),this.points=gt(()=>t$(this.steps.value,this.marks.value)),this.latest=gt(()=>this.rounds.value.findLast(({status:n})=>n==="completed")?.round??null),this.version=gt(()=>this.#f())}get id(){return this.#e.id}watch(){let e=We(()=>{let n=this.#e.follower.value;this.version.value,gn(()=>this.#u(n))});return()=>{e(),clearTimeout(this.#l),this.#l=null}}isOpen(e){return this.open.value.has(e)}toggle(e,n=!this.open.value.has(e)){let s=new Set(this.open.value);n?s.add(e):s.delete(e),this.open.value=s}select(e){this.selected.value={key:e}}retry(){return this.#m()}#c(e){return this.#s.value.filter(n=>n.type===e).map(({seq:n,data:s})=>({...s,seq:n}))}#f(){let{stepNews:e,rounds:n,working:s,failedRungs:o,prunes:i}=this.#e,l=`${n.value.map(({round:a,status:u})=>`${a}${u}`).join()} ${[...s.value.keys()].join()} ${o.value}`;return`${e.value} ${l} ${i.value.at(-1)?.seq}`}#u(e){if(e!==this.#a){let s=this.#a===null;this.#a=e,s||this.#d()}let n=this.progress.value===0?0:A1;this.#l??=setTimeout(()=>{this.#l=null,this.#m()},n)}#d(){me(()=>{this.#t.value=new Map,this.#n.value=[],this.#s.value=[],this.progress.value=0}),this.#o=null,this.#i=0}#m(){return this.#r=this.#r.then(()=>this.#p()),this.#r}async#p(){try{await Promise.all([this.#g(),this.#h(),this.#v()]),this.problem.value=null}catch(e){this.problem.value=e}}async#h(){this.#n.value=(await W(I(this.id,"compactions"))).items}async#g(){for(;;){let e=this.#o===null?"":`&after=${this.#o}`,n=await W(`${I(this.id,"steps")}?limit=${n$}${e}`),s=new Map(this.#t.value);for(let o of n.items)s.set(o.message_id,o);if(me(()=>{this.#t.value=s,this.progress.value!==null&&(this.progress.value=n.next_cursor===null?null:s.size)}),n.next_cursor===null)return this.#$(n.items);this.#o=n.next_cursor}}#$(e){let n=({message_id:r})=>this.#e.transcript.message(r)?.peek().seq,s=e.findIndex(({duration_ms:r},l)=>r===null&&l>=e.length-5),o=e[(s<0?e.length:s)-2],i=o&&n(o);i!==void 0&&(this.#o=String(i))}async#v(){for(;;){let e=`after=${this.#i}&limit=${n$}&types=${M1}`,n=await W(`${I(this.id,"log")}?${e}`);if(n.items.length&&(this.#s.value=[...this.#s.value,...n.items]),this.#i=n.next_cursor??Math.max(n.last_seq,this.#i),n.next_cursor===null)return}}};function R1(t,e){return[...new Map([...e,...t].map(s=>[s.seq,s])).values()].sort((s,o)=>s.seq-o.seq)}var L1=1e3,P1=100,i$=["mcp.ready","mcp.failed"],r$=["subagent.started","subagent.finished"],l$=["command.started","command.ended"],s$=["session.running","session.idle","checkpoint.failed",...i$,...r$,...l$],af=new WeakMap;function yi(t){return af.has(t)||af.set(t,new cf(t)),af.get(t)}var cf=class{items=C([]);notes=C([]);run=C(null);#e;#t=new Map;#n=1/0;#s=-1/0;#o=Promise.resolve();#i=null;#l=null;#r=!1;constructor(e){this.#e=e}watch(){this.#r=!0;let e=We(()=>{let n=this.#e.follower.value,s=this.#e.log.value.filter(({type:o})=>s$.includes(o));gn(()=>{this.#a(n),this.#d(s)})});return()=>{this.#r=!1,e()}}#a(e){this.#l!==null&&e!==this.#l&&(this.#t=new Map,this.items.value=[],this.notes.value=[],this.run.value=null,[this.#n,this.#s]=[1/0,-1/0],this.#i&&this.cover(...this.#i)),this.#l=e}cover(e,n){return this.#i=[e,n],this.#c(e,n)}#c(e,n){let s=()=>this.#r&&this.#c(e,n),o=i=>{i.mayPass&&setTimeout(s,L1)};return this.#o=this.#o.then(()=>this.#f(e,n)).catch(o),this.#o}async#f(e,n){if(n<this.#n||e>this.#s){this.#n=await this.#u(n,e),this.#s=n;return}n>this.#s&&(await this.#u(n,this.#s),this.#s=n),e<this.#n&&(this.#n=await this.#u(this.#n,e))}async#u(e,n){let s=e===1/0?null:e+1;for(;;){let o=s===null?"":`&after=${s}`,i=`types=${s$.join()}&order=desc&limit=${P1}${o}`,r=await W(`${I(this.#e.id,"log")}?${i}`);if(this.#d(r.items),r.next_cursor===null)return 0;s=r.next_cursor;let l=r.items.at(-1);if(l?.seq<=n&&uf(l))return l.seq}}#d(e){let n=e.filter(({seq:o})=>!this.#t.has(o));if(n.length===0)return;for(let o of n)this.#t.set(o.seq,o);let s=[...this.#t.values()].sort((o,i)=>o.seq-i.seq);me(()=>{this.items.value=N1(s),this.notes.value=[...I1(s),...o$(s,r$,"subagent_id"),...o$(s,l$,"command_id")],this.run.value=D1(s)})}};function I1(t){let e=new Map,n=[];for(let{seq:s,type:o,data:i}of t){if(!i$.includes(o))continue;let r=JSON.stringify([o,i.tools,i.left_out,i.code,i.detail]);e.get(i.server)!==r&&n.push({...i,seq:s,type:o}),e.set(i.server,r)}return n}function o$(t,[e,n],s){let o=new Map(t.filter(({type:r})=>r===n).map(({data:r})=>[r[s],r]));return t.filter(({type:r})=>r===e).map(({seq:r,type:l,data:a})=>({...a,seq:r,type:l,end:o.get(a[s])??null}))}var uf=({type:t,data:e})=>t==="session.running"&&e.trigger!=="recovery";function D1(t){let e=t.findLast(uf);if(!e)return null;let n=t.findLast(({type:o,seq:i})=>o==="session.idle"&&i>e.seq);return{...{startedAt:Date.parse(e.data.at),endedAt:n?Date.parse(n.data.at):null},steps:n?.data.steps??null}}function a$(t,e){if(t.steps!==null)return t.steps;let n=e.filter(({started_at:s})=>Date.parse(s)>=t.startedAt);return new Set(n.map(({step:s})=>s)).size}function N1(t){let e=[],n=null,s=null;for(let o of t){let{type:i,seq:r,data:l}=o;uf(o)?[n,s]=[l.at,null]:i==="checkpoint.failed"?s=l:i==="session.idle"&&(e.push({...l,seq:r,startedAt:n,failure:s}),[n,s]=[null,null])}return e}function c$({startedAt:t,at:e},n){if(t===null)return{begin:null,end:null};let[s,o]=[Date.parse(t),Date.parse(e)+F1],i=n.filter(a=>z1(Date.parse(a.at),s,o)),r=i.findLast(({reason:a})=>a==="run_ended");return{begin:i.findLast(({reason:a,run:u})=>a==="run_started"&&(!r||u===r.run))?.id??null,end:r?.id??null}}var F1=50,z1=(t,e,n)=>t>=e&&t<=n;function _a(t){let e=P(null),n=P(t);n.current=t;let s=()=>{clearTimeout(e.current),e.current=null};return O(()=>s,[]),o=>{e.current??=setTimeout(()=>{e.current=null,n.current()},o)}}var W1=400;function u$({state:t,session:e}){q1(t,e);let n=yi(t);O(()=>n.watch(),[n]),O(()=>{n.cover(1/0,1/0)},[n]);let{steps:s,usage:o}=e;return s===0&&e.status==="idle"?null:c`<span class="facts dim numbers">
    <span title="Steps of all runs">${x(s)} ${s===1?"step":"steps"}</span>
    <${B1} run=${n.run.value} />
    ${o.cost_usd>0&&c`<span title="Cost of all runs">${nt(o.cost_usd)}</span>`}
  </span>`}function B1({run:t}){if(t===null)return null;let e=t.endedAt===null,n=Math.max(0,(t.endedAt??vn.value)-t.startedAt),s=_e(e?Math.floor(n/1e3)*1e3:n);return c`<span title=${e?"Time of this run":"Time of the last run"}>${s}</span>`}function q1(t,{status:e}){let{version:n}=wi(t),s=P(!0),o=async()=>{let{usage:r}=await W(I(t.id));t.update({usage:r})},i=_a(()=>o().catch(()=>{}));O(()=>{s.current||i(W1),s.current=!1},[t,n.value,e])}function f$(t){let{id:e,status:n,outcome:s}=t??{};O(()=>{if(n!=="idle"||s===null)return;let o=()=>{document.visibilityState==="visible"&&(document.removeEventListener("visibilitychange",o),Qn("POST",I(e,"seen")).then(()=>re.seen(e),()=>{}))};return document.addEventListener("visibilitychange",o),o(),()=>document.removeEventListener("visibilitychange",o)},[e,n,s])}function d$(t,{call_id:e,message_id:n,name:s,arguments:o,at:i}){let r={call_id:e,message_id:n,name:s,arguments:o,requested_at:i,expires_at:null};t.clientCalls.value=[...h$(t,e),r],t.update({status:"awaiting_client"}),U1(t).catch(()=>{})}function ka(t,e){t.clientCalls.value.some(({call_id:s})=>s===e)&&(t.clientCalls.value=h$(t,e))}function p$(t,{status:e}){e!=="awaiting_client"&&t.clientCalls.value.length&&(t.clientCalls.value=[])}async function U1(t){let{items:e}=await W(ff(t.id)),n=new Map(e.map(({call_id:o,expires_at:i})=>[o,i])),s=o=>({...o,expires_at:n.get(o.call_id)??o.expires_at});t.clientCalls.value=t.clientCalls.value.map(s)}var ff=t=>`${I(t,"tool-calls")}?status=pending`,h$=(t,e)=>t.clientCalls.value.filter(({call_id:n})=>n!==e);async function m$(t){for(let e="";;){let n=`${I(t,"log")}?types=plan.updated&order=desc&limit=1${e}`,{items:s,next_cursor:o}=await W(n);if(s.length)return s[0].data.items;if(o===null)return null;e=`&after=${encodeURIComponent(o)}`}}var j1=new URLSearchParams({types:"source.started,source.completed,source.failed",limit:200}),H1={"source.started":({url:t,ref:e})=>({status:"cloning",url:t,ref:e}),"source.completed":({commit:t},e)=>({...e,status:"cloned",commit:t}),"source.failed":({code:t,detail:e},n)=>({...n,status:"failed",code:t,detail:e})},df=new WeakMap;function pf(t){return df.has(t)||df.set(t,C(null)),df.get(t)}function hf(t,{seq:e,type:n,data:s}){let o=pf(t);e>(o.value?.seq??0)&&(o.value={...H1[n](s,o.value),seq:e})}async function g$(t){let{items:e}=await W(`${I(t.id,"log")}?${j1}`);for(let n of e)hf(t,n)}var b$=500;function w$(t,{seq:e,type:n,data:s}){V1[n]?.(t,s,e)}var $o=(t,e,n)=>t.filter(s=>s[e]!==n);function mf(t){return(e,n)=>{e.transcript.delta(t,n)||e.again()}}function $$(t){return(e,{message_id:n,part_id:s,index:o,text:i,interrupted:r})=>e.transcript.partCompleted({id:s,index:o,type:t,text:i,interrupted:r},n)}function G1(t,e){let n=new Map(t.working.value);n.set(e.round,{...n.get(e.round),...e}),t.setWorking(n,y$(t)||!e.background)}var y$=t=>t.session.value?.compaction.in_progress??!1;function _$(t,e){let n=new Map(t.working.value),s=n.get(e);n.delete(e);let o=[...n.values()].some(({background:i})=>!i);return t.setWorking(n,y$(t)&&o),s}function k$(t,e){let n=$o(t.rounds.value,"round",e.round);t.rounds.value=[...n,e].sort((s,o)=>s.round-o.round)}function xa(t){return(e,{session_id:n,at:s,...o})=>{let i=_$(e,o.round),r=e.rounds.value.find(({round:u})=>u===o.round),a=(t==="failed"?void 0:o.usage)??r?.usage??i?.usage;k$(e,{created_at:s,...i,...r,...o,usage:a,status:t})}}function v$(t,{step:e,attempt:n,message_id:s,context:o},i){let r=new Map(t.steps.value);r.set(s,{...r.get(s),step:e,attempt:n,message_id:s,context:o,...i}),r.size>b$&&r.delete(r.keys().next().value),t.steps.value=r,t.stepNews.value+=1}var gf=t=>(e,n,s)=>hf(e,{seq:s,type:t,data:n}),V1={"session.created":(t,{session:e})=>t.update(e),"session.updated":(t,{session:e})=>{t.update(e),p$(t,e)},"session.deleted":t=>t.deleted.value=!0,"session.running":t=>{t.runs.value+=1,t.update({status:"running",outcome:null,error:null})},"session.idle":(t,{outcome:e,error:n,answer:s,output:o})=>{t.retrying.value=null,t.clientCalls.value=[],t.update({status:"idle",outcome:e,error:n??null,answer:s??null,output:o??null})},"source.started":gf("source.started"),"source.completed":gf("source.completed"),"source.failed":gf("source.failed"),"message.queued":(t,{message_id:e,mode:n,content:s,position:o},i)=>{let r=$o(t.queue.value,"id",e);r.splice(o-1,0,{id:e,mode:n,content:s,position:o,status:"pending",seq:i}),t.setQueue(r)},"message.edited":(t,{message_id:e,mode:n,content:s,position:o})=>{let i=t.queue.value.find(a=>a.id===e);if(!i)return;let r=$o(t.queue.value,"id",e),l={...i,mode:n,content:s??i.content};r.splice((o??i.position)-1,0,l),t.setQueue(r)},"message.withdrawn":(t,{message_id:e})=>t.setQueue($o(t.queue.value,"id",e)),"message.dequeued":(t,{message_id:e})=>t.setQueue($o(t.queue.value,"id",e)),"message.created":(t,{message:e})=>t.transcript.created(e),"step.started":(t,e,n)=>{t.retrying.value=null,t.transcript.stepStarted(n,e),t.update({context:e.context,status:"running"}),v$(t,e,{started_at:e.at})},"step.retrying":(t,e)=>{t.transcript.voided(e);let n=Date.parse(e.at)+e.delay_ms;t.retrying.value={attempt:e.attempt,until:n,code:e.code,detail:e.detail}},"step.finished":(t,e)=>{t.transcript.stepFinished(e),t.update({context:e.context,steps:Math.max(t.session.value?.steps??0,e.step)});let{finish_reason:n,usage:s,at:o}=e;v$(t,e,{finish_reason:n,usage:s,finished_at:o})},"text.delta":mf("text"),"reasoning.delta":mf("reasoning"),"tool.arguments":mf("tool_call"),"text.completed":$$("text"),"reasoning.completed":$$("reasoning"),"tool.call":(t,e)=>{let{message_id:n,part_id:s,index:o,call_id:i,name:r,arguments:l,waits_for_client:a}=e,u={id:s,index:o,type:"tool_call",call_id:i,name:r,arguments:l};t.transcript.partCompleted(u,n),a&&d$(t,e)},"tool.output":(t,e)=>t.transcript.output(e),"tool.result":(t,{session_id:e,at:n,message_id:s,part_id:o,...i},r)=>{t.transcript.resulted({...i,id:o,type:"tool_result"},s,r,n),ka(t,i.call_id)},"approval.requested":(t,{session_id:e,at:n,...s})=>{let o=$o(t.approvals.value,"call_id",s.call_id);t.approvals.value=[...o,{...s,requested_at:n}],t.update({status:"awaiting_approval"})},"approval.resolved":(t,{call_id:e})=>{t.approvals.value=$o(t.approvals.value,"call_id",e),t.approvals.value.length===0&&t.update({status:"running"})},"plan.updated":(t,{items:e})=>t.plan.value=e,"prune.completed":(t,e,n)=>{t.transcript.pruned(e.call_ids,e.at),!t.prunes.value.some(s=>s.seq===n)&&(t.prunes.value=[...t.prunes.value,{...e,seq:n}].slice(-b$))},"compaction.started":(t,{session_id:e,at:n,...s})=>G1(t,{...s,created_at:n}),"compaction.completed":(t,{session_id:e,at:n,...s})=>{_$(t,s.round),k$(t,s),t.transcript.loadMarks()},"compaction.failed":(t,e)=>{t.failedRungs.value+=1,e.next||xa("failed")(t,e)},"compaction.cancelled":xa("cancelled"),"compaction.discarded":xa("discarded"),"compaction.reverted":(t,e)=>{xa("reverted")(t,e),t.transcript.loadMarks()}};var Sa=class{order=C([]);first=1/0;last=0;#e=new Map;#t=new Map;message(e){return this.#e.get(e)}result(e){let n=this.#t.get(e);return n||(n=C(null),this.#t.set(e,n)),n}resultNow(e){return this.#t.get(e)?.peek()??null}add(e){let n=[];for(let i of e)this.first=Math.min(this.first,i.seq),this.last=Math.max(this.last,i.seq),!i.voided_at&&!this.#n(i)&&n.push(i.id);if(n.length===0)return;let s=i=>this.#e.get(i).peek().seq,o=[...this.order.peek(),...n];this.order.value=o.sort((i,r)=>s(i)-s(r))}#n(e){for(let s of e.parts)s.type==="tool_result"&&(this.result(s.call_id).value=x$(s,e.parts));let n=this.#e.get(e.id);return n?n.value=e:this.#e.set(e.id,C(e)),n!==void 0}change(e,n){let s=this.#e.get(e);s&&(s.value=n(s.peek()))}putResult(e){let n=this.#t.get(e.call_id);n&&(n.value=e)}changeResult(e,n){let s=this.#t.get(e);s?.peek()&&(s.value=n(s.peek()))}putMarks({id:e,round:n,parts:s}){this.#e.get(e)?.peek().round!==n&&this.change(e,i=>({...i,round:n}));for(let i of s.filter(({type:r})=>r==="tool_result")){let{compacted_at:r,original_tokens:l,images:a}=x$(i,s);this.changeResult(i.call_id,u=>({...u,compacted_at:r,original_tokens:l,images:a}))}let o=new Map(s.filter(({type:i})=>i==="image").map(i=>[i.id,i]));o.size!==0&&this.change(e,i=>({...i,parts:i.parts.map(r=>o.get(r.id)??r)}))}remove(e){this.#e.has(e)&&(this.#o(e),this.order.value=this.order.peek().filter(n=>n!==e))}replace(e){let n=new Set(e.filter(({voided_at:o})=>!o).map(({id:o})=>o)),s=this.order.peek();me(()=>{for(let o of s)n.has(o)||this.#o(o);for(let o of this.#t.values())o.value=null;this.order.value=s.filter(o=>n.has(o)),this.first=1/0,this.last=0,this.add(e)})}keepFirst(e){let n=this.order.peek();return n.length<=e?!1:(this.#s(n.slice(0,e),n.slice(e)),this.last=this.#e.get(n[e-1]).peek().seq,!0)}keepLast(e){let n=this.order.peek(),s=i=>this.#e.get(n[i]).peek(),o=Math.max(0,n.length-e);for(;o>0&&s(o).role==="tool";)o-=1;return o===0?!1:(this.first=s(o).seq,this.#s(n.slice(o),n.slice(0,o)),!0)}#s(e,n){for(let s of n)this.#o(s);this.order.value=e}#o(e){for(let n of this.#e.get(e).peek().parts)n.type==="tool_call"&&this.#t.delete(n.call_id);this.#e.delete(e)}};function x$(t,e){return{...t,images:e.filter(({type:n,of_call:s})=>n==="image"&&s===t.call_id)}}function $f(t,e,n,s){return{id:t,seq:e,role:n,parts:[],tokens:0,model:null,finish_reason:null,error:null,is_summary:!1,round:null,voided_at:null,created_at:s}}function Ea(t,e){return[...t.filter(({id:n})=>n!==e.id),e].sort((n,s)=>n.index-s.index)}var K1=200,S$=500,E$=250,Y1=40,Ca=class{#e;constructor(e){this.#e=e}async after(e,n=K1){let s=await this.#s(e,n);return{items:s.items,lastSeq:s.last_seq,more:s.next_cursor!==null}}async around(e){let n=Math.max(0,e-E$);return{...await this.after(n),hasEarlier:n>0}}async newest(){let{last_seq:e}=await W(I(this.#e));return this.#t(e+1,1/0)}async before(e){return this.#t(e,e)}async message(e){return(await this.#s(e-1,1)).items.find(n=>n.seq===e)??null}async*all(e,n){for(let s=e-1;s!==null&&s<n;){let o=await this.#s(s,S$);yield o.items,s=o.next_cursor===null?null:Number(o.next_cursor)}}async#t(e,n){let s=[],o=null,i=E$;for(;;){let r=Math.max(0,e-1-i),l=await this.#n(r,n);if(s=[...l.items,...s],o??=l.lastSeq,s.length>=Y1||r===0)return{items:s,lastSeq:o,more:r>0};e=n=r+1,i*=4}}async#n(e,n){let s=[],o=null;for(let i=e;i!==null;){let r=await this.#s(i,S$);o??=r.last_seq;let l=r.items.filter(({seq:a})=>a<n);s.push(...l),i=l.length<r.items.length?null:r.next_cursor}return{items:s,lastSeq:o}}#s(e,n){return W(`${I(this.#e,"messages")}?after=${e}&limit=${n}`)}};var Z1=300,Ta=class{#e;#t;#n=null;constructor(e,n){this.#e=e,this.#t=n}put(e,n){for(let s of e)this.#e.changeResult(s,o=>({...o,compacted_at:o.compacted_at??n}))}loadSoon(){clearTimeout(this.#n),this.#n=setTimeout(()=>this.#s().catch(()=>{}),Z1)}async#s(){let{first:e,last:n}=this.#e;for await(let s of this.#t.all(e,n))me(()=>{for(let o of s)this.#e.putMarks(o)})}};var Lr=class{#e=new Map;#t;constructor(e=()=>{}){this.#t=e}of(e){return this.#e.has(e)||this.#e.set(e,C(!1)),this.#e.get(e)}toggle(e){this.#t();let n=this.of(e);n.value=!n.peek()}};var Oa=class{left=C(null);folds=new Lr(()=>this.follow(!1));planFolds=new Lr;place=null;#e;constructor(e){this.#e=e}get isFollowed(){return this.left.peek()===null}follow(e){this.left.value=e?null:this.left.peek()??this.#e.peek()}};var J1=/[\uD800-\uDBFF][\uDC00-\uDFFF]/g;function vf(t){return t.length-(t.match(J1)?.length??0)}function C$(t,e){if(e>=t.length)return t;let n=0;for(let s=0;s<e&&n<t.length;s+=1)n+=t.codePointAt(n)>65535?2:1;return t.slice(0,n)}var bf=class{text="";points=0;put(e,n){return e>this.points?!1:(e<this.points&&(this.text=C$(this.text,e),this.points=e),this.text+=n,this.points+=vf(n),!0)}},T$=64*1024,wf=class{text="";#e=0;put(e,n){let s=e===this.#e;this.#e=e+vf(n);let o=s?this.text+n:n;this.text=o.length>2*T$?o.slice(-T$):o}},Aa=class{#e=new Map;#t=new Set;#n;constructor(e){this.#n=e}connected(){this.#t.clear()}get(e){return this.#e.get(e)}of(e){return[...this.#e].filter(([,n])=>n.messageId===e).map(([n])=>n)}put(e,{part_id:n,message_id:s,index:o,name:i,offset:r,text:l}){return this.#t.has(n)||(this.#e.set(n,{type:e,messageId:s,index:o,name:i,written:new bf}),this.#t.add(n)),this.#e.get(n).written.put(r,l)?(this.#n(n),!0):!1}putOutput({call_id:e,offset:n,text:s}){let o=this.#e.get(e)??{type:"output",written:new wf};this.#e.set(e,o),o.written.put(n,s),this.#n(e)}drop(e){this.#e.delete(e),this.#t.delete(e)}};var Ma=4e3,O$=1e3,Ra=class{hasEarlier=C(!1);hasLater=C(!1);loading=C(null);problem=C(null);arrived=C(0);reading=new Oa(this.arrived);#e=new Sa;#t;#n=new Aa(e=>this.#g(e));#s=new Map;#o=new Set;#i=null;#l=0;#r=0;#a=null;#c;constructor(e){this.#t=new Ca(e),this.#c=new Ta(this.#e,this.#t)}get order(){return this.#e.order}message(e){return this.#e.message(e)}result(e){return this.#e.result(e)}preview(e){return this.#s.has(e)||this.#s.set(e,C("")),this.#s.get(e)}async loadNewest(){let e=await this.#f("all",()=>this.#t.newest(),({items:n,more:s})=>{this.#e.replace(n),this.hasEarlier.value=s,this.hasLater.value=!1});return this.#l=Math.max(this.#l,this.#e.last),e?.lastSeq??0}async followNewest(){this.hasLater.peek()&&await this.loadNewest(),this.reading.follow(!0)}async loadOldest(){await this.#f("all",()=>this.#t.after(0),({items:e,more:n})=>{this.#e.replace(e),this.hasEarlier.value=!1,this.hasLater.value=n})}async loadAround(e){let{first:n,last:s}=this.#e;e>=n&&(e<=s||!this.hasLater.value)||await this.#f("all",()=>this.#t.around(e),({items:o,more:i,hasEarlier:r})=>{this.#e.replace(o),this.hasEarlier.value=r,this.hasLater.value=i})}async loadEarlier(){!this.hasEarlier.value||this.loading.value||await this.#f("earlier",()=>this.#t.before(this.#e.first),({items:e,more:n})=>{this.#e.add(e),this.hasEarlier.value=n,this.#e.keepFirst(Ma)&&(this.hasLater.value=!0)})}async loadLater(){!this.hasLater.value||this.loading.value||await this.#f("later",()=>this.#t.after(this.#e.last),({items:e,more:n})=>{this.#e.add(e),this.hasLater.value=n,this.#e.keepLast(Ma)&&(this.hasEarlier.value=!0)})}async#f(e,n,s){let o=this.#r+=1;this.loading.value=e,this.problem.value=null;try{let i;do if(this.#a=[],i=await n(),o!==this.#r)return null;while(this.#a.length===O$);return me(()=>{s(i);for(let r of this.#a)r();this.#$(i.items)}),i}catch(i){throw o===this.#r&&(this.problem.value=i),i}finally{o===this.#r&&(this.loading.value=null,this.#a=null)}}#u(e){this.#a?.length<O$&&this.#a.push(e),me(e)}connected(){this.#n.connected()}created(e){this.#u(()=>this.#d(e))}stepStarted(e,{message_id:n,at:s}){this.#u(()=>{this.message(n)||this.#d($f(n,e,"assistant",s))})}#d(e){e.seq>this.#l&&(this.#l=e.seq,e.role!=="tool"&&(this.arrived.value+=1));let n=this.message(e.id)!==void 0;!n&&!this.reading.isFollowed&&this.order.peek().length>=Ma&&(this.hasLater.value=!0),!(!n&&this.hasLater.value)&&(this.#e.add([e]),this.reading.isFollowed&&this.#e.keepLast(Ma)&&(this.hasEarlier.value=!0))}stepFinished({message_id:e,finish_reason:n}){this.flush(),this.#u(()=>{this.#p(e);let s=n==="stop"||n==="tool_calls";this.#e.change(e,o=>({...o,parts:o.parts.filter(i=>!i.open),finish_reason:s?n:o.finish_reason})),s||this.#m(e,n)})}async#m(e,n){let s=this.message(e);if(!s)return;let o=await this.#t.message(s.peek().seq).catch(()=>null),{finish_reason:i,error:r}=o??{finish_reason:n,error:null};this.#e.change(e,l=>({...l,finish_reason:i,error:r}))}voided({message_id:e}){this.#u(()=>{this.#p(e),this.#e.remove(e)})}#p(e){for(let n of this.#n.of(e))this.#h(n)}#h(e){this.#n.drop(e),this.#o.delete(e)}delta(e,n){return this.message(n.message_id)?.peek().parts.find(({id:o})=>o===n.part_id)?.closed===!0||this.#n.put(e,n)}output(e){this.#e.resultNow(e.call_id)||this.#n.putOutput(e)}partCompleted(e,n){this.#h(e.id),this.#u(()=>{let s={...e,closed:!0};this.#e.change(n,o=>({...o,parts:Ea(o.parts,s)}))})}resulted({images:e,...n},s,o,i){this.#h(n.call_id),this.#s.delete(n.call_id),this.#u(()=>{let r=this.message(s)?.peek()??$f(s,o,"tool",i);this.#e.putResult({...n,images:e}),this.#d({...r,parts:[n,...e??[]].reduce(Ea,r.parts)})})}pruned(e,n){this.#u(()=>this.#c.put(e,n)),this.loadMarks()}loadMarks(){this.#c.loadSoon()}flush(){this.#i!==null&&cancelAnimationFrame(this.#i),this.#i=null;let e=[...this.#o];this.#o.clear(),me(()=>{for(let n of e)this.#v(n)})}#g(e){this.#o.add(e),this.#i??=requestAnimationFrame(()=>this.flush())}#$(e){for(let{id:n}of e)for(let s of this.#n.of(n))this.#v(s)}#v(e){let n=this.#n.get(e);if(!n)return;let s=n.written.text;if(n.type==="output"){this.preview(e).value=s;return}let o={id:e,index:n.index,type:n.type,open:!0};Object.assign(o,n.type==="tool_call"?{name:n.name,written:s}:{text:s}),this.#e.change(n.messageId,i=>({...i,parts:Ea(i.parts,o)}))}};var Q1=2e3,La=class{session=C(null);queue=C([]);approvals=C([]);clientCalls=C([]);rounds=C([]);working=C(new Map);failedRungs=C(0);prunes=C([]);steps=C(new Map);stepNews=C(0);runs=C(0);plan=C(null);retrying=C(null);log=C([]);problem=C(null);deleted=C(!1);transcript;follower=C(null);#e;#t=0;#n=new ai;constructor(e){this.#e=e,this.transcript=new Ra(e)}get id(){return this.#e}async open(){let e=this.#t+=1,n=()=>e===this.#t;for(this.#n.reset();n();)try{let s=await this.#s(n);n()&&this.#o(s);return}catch(s){if(!n()||(this.problem.value=s,!s.mayPass))return;await this.#n.wait(this.#n.next(s))}}close(){this.#t+=1,this.#n.end(),this.follower.value?.stop()}async reload(){this.close(),me(()=>{this.problem.value=null,this.log.value=[],this.steps.value=new Map,this.prunes.value=[],this.plan.value=null,this.retrying.value=null}),await this.open()}async#s(e){let n=u=>I(this.#e,u),[s,o,i,r,l,a]=await Promise.all([this.transcript.loadNewest(),W(I(this.#e)),W(n("queue")),W(n("approvals")),W(ff(this.#e)),W(n("compactions"))]);return e()?(me(()=>{this.problem.value=null,this.session.value=o,this.queue.value=i.items,this.approvals.value=r.items,this.clientCalls.value=l.items,this.rounds.value=a.items.filter(({status:u})=>u!=="running"),this.working.value=new Map(a.items.filter(({status:u})=>u==="running").map(u=>[u.round,u]))}),Math.min(s,...[o,i,r,l,a].map(({last_seq:u})=>u))):null}#o(e){this.follower.value=new ci(I(this.#e,"events"),{after:e,onEvents:n=>this.#r(n),onConnected:()=>this.transcript.connected(),onLost:n=>this.#l(n)}),this.#i()}async#i(){let e=this.plan.value,n=await m$(this.#e).catch(()=>null);n&&this.plan.value===e&&(this.plan.value=n)}#l(e){e.status===404?this.deleted.value=!0:e.status===409?this.reload():this.problem.value=e}#r(e){me(()=>{for(let o of e)this.#a(o);let n=this.log.value.at(-1)?.seq??0,s=e.filter(({seq:o})=>o!==null&&o>n);s.length&&(this.log.value=[...this.log.value,...s].slice(-Q1))})}#a(e){try{w$(this,e)}catch(n){console.error(n)}}again(){let{value:e}=this.follower;e?.reconnect()}update(e){this.session.value&&(this.session.value={...this.session.value,...e})}setWorking(e,n){this.working.value=e;let{compaction:s}=this.session.value??{};s&&this.update({compaction:{...s,in_progress:n}})}setQueue(e){this.queue.value=e,this.update({queue:{...this.session.value?.queue,pending:e.length}})}};var _i={added:"good",modified:"running",deleted:"bad",renamed:"waiting"},Nn=t=>io(t).replaceAll(`
`,"␊").replaceAll("	","␉"),qs=t=>`${x(t)} ${t===1?"file":"files"}`;function Sn({additions:t,deletions:e}){return t+e===0?null:c`<span class="lines numbers">
    ${t>0&&c`<span class="lines-added">+${x(t)}<span class="hidden"> ${A$(t)} added</span></span>`}${" "}
    ${e>0&&c`<span class="lines-removed">−${x(e)}<span class="hidden"> ${A$(e)} removed</span></span>`}
  </span>`}var A$=t=>t===1?"line":"lines";function Pa({item:{path:t,old_path:e}}){return e===null?c`<bdi>${Nn(t)}</bdi>`:c`<bdi class="dim">${Nn(e)}</bdi> → <bdi>${Nn(t)}</bdi>`}var X1={run_started:"started",run_ended:"ended"};function Pr({run:t,reason:e,at:n}){let s=e==="before_restore"?"Before a restore":`Run ${x(t)} ${X1[e]}`,o=new Date(n).toDateString()===new Date(us()).toDateString();return`${s}, ${o?Rt(n):ze(n)}`}var _f=5e4,Ia="diff --git ";function R$(t){let e=[],n=null;for(let s=t.startsWith(Ia)?0:-1;s>=0;){let o=t.indexOf(`
${Ia}`,s),i=o<0?t.length:o+1,r=t.slice(s,t.indexOf(`
`,s));r===n?e[e.length-1]+=t.slice(s,i):e.push(t.slice(s,i)),n=r,s=o<0?-1:i}return e}function L$(t,{path:e,old_path:n}){let s=t.slice(Ia.length,t.indexOf(`
`));return s.includes('"')||s===`a/${n??e} b/${e}`}var eE=/^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$/,tE={" ":"same","+":"added","-":"removed"};function Da(t){let e=new yf;for(let n=0;n<t.length&&!e.isFull;){let s=t.indexOf(`
`,n),o=s<0?t.length:s;e.take(t.slice(n,o)),n=o+1}return e.diff()}var yf=class{#e=[];#t=[];#n={before:new Ir,after:new Ir,notes:new Ir};#s=null;#o=!1;get isFull(){return this.#e.length>=_f}take(e){e.startsWith(Ia)?this.#s=null:e.startsWith("@@ ")?this.#i(e):this.#s===null?this.#a(e):e.startsWith("\\")?this.#r("end","notes",e.slice(1).trim()):this.#l(tE[e[0]]??"same",e.slice(1))}#i(e){let[,n,s,o]=eE.exec(e)??[null,"1","1",""];this.#s={old:Number(n),new:Number(s)},(o||Number(s)>1)&&this.#r("hunk","notes",`Line ${s}${o?` · ${o}`:""}`)}#l(e,n){let{old:s,new:o}=this.#s,i={old:e==="added"?null:s,new:e==="removed"?null:o};e==="same"&&this.#n.before.add(io(n)),this.#r(e,e==="removed"?"before":"after",n,i),this.#s={old:s+(e==="added"?0:1),new:o+(e==="removed"?0:1)}}#r(e,n,s,o={old:null,new:null}){this.#e.push({kind:e,side:n,...o,...this.#n[n].add(io(s))})}#a(e){let n=/^(old|new|deleted file|new file) mode (\d+)$/.exec(e);n&&this.#t.push({name:n[1],mode:n[2]}),(e.startsWith("GIT binary patch")||e.startsWith("Binary files "))&&(this.#o=!0)}diff(){let e=Object.fromEntries(Object.entries(this.#n).map(([s,o])=>[s,o.joined()])),{isFull:n}=this;return{lines:this.#e,facts:nE(this.#t),texts:e,isBinary:this.#o,isFull:n}}},Ir=class{#e=[];#t=0;add(e){let n=this.#t;return this.#e.push(e),this.#t+=e.length+1,{start:n,end:n+e.length}}joined(){return this.#e.join(`
`)}},M$={12e4:"symbolic link",16e4:"git submodule",100755:"executable"};function nE(t){let e=l=>t.find(a=>a.name===l)?.mode,[n,s]=[e("old")??e("deleted file"),e("new")??e("new file")],[o,i]=[M$[n]??"file",M$[s]??"file"];if(n&&s)return[i===o?`Mode: ${n} → ${s}`:`Type: ${o} → ${i}`];let r=s?i:o;return r==="file"?[]:[`Type: ${r}`]}function P$({lines:t,texts:e},n,s){let o=[];return t.forEach(({side:i,start:r,end:l},a)=>{let u=r;do{let f=s(e[i],u,l,n);o.push({line:a,from:u,to:f}),u=f}while(u<l)}),o}var Na=null;function ki(){if(Na!==null)return Na;let t=document.createElement("code");return t.className="file-ruler",t.textContent="0".repeat(100),document.body.append(t),Na=t.getBoundingClientRect().width/100||8,t.remove(),Na}var Fa=20,vo=30,sE=2e5,oE=20,iE=14,rE={added:"+",removed:"-",same:" ",hunk:" ",end:" "},I$={added:"added",removed:"removed"};function za({diff:t,path:e}){let n=P(null),[s,o]=M(80),i=de(()=>P$(t,s,Ju),[t,s]),[r,l]=aE(n,i.length),a={before:D$(t.texts.before,e),after:D$(t.texts.after,e),notes:[]};pe(()=>{let f=()=>{let h=Math.floor(n.current.clientWidth/ki())-iE;o(Math.max(oE,h))};f();let d=new ResizeObserver(f);return d.observe(n.current),()=>d.disconnect()},[]);let u=`${i.length*Fa}px`;return c`<div ref=${n} class="diff-rows" style=${{height:u}}>
    <div class="diff-sight" style=${{transform:`translateY(${r*Fa}px)`}}>
      ${i.slice(r,l).map((f,d)=>c`<${lE} key=${r+d} ...${{row:f,diff:t,tokens:a}} />`)}
    </div>
  </div>`}function lE({row:{line:t,from:e,to:n},diff:s,tokens:o}){let{kind:i,side:r,old:l,new:a,start:u}=s.lines[t],f=e===u;return c`<div class="diff-line ${i}">
    <span class="diff-number" aria-hidden="true">${f?l:null}</span>
    <span class="diff-number" aria-hidden="true">${f?a:null}</span>
    <span class="diff-sign" aria-hidden="true">${f?rE[i]:" "}</span>
    ${f&&I$[i]&&c`<span class="hidden">${I$[i]}: </span>`}
    <code dir="ltr">${Yt(s.texts[r],e,n,o[r]).map($i)}</code>
  </div>`}function aE(t,e){let[n,s]=M({first:0,last:2*vo});return pe(()=>{let i=t.current.closest(".transcript-box, .view"),r=()=>{let a=i.getBoundingClientRect().top-t.current.getBoundingClientRect().top,u=Math.floor(a/Fa/vo)*vo,f=Math.ceil(i.clientHeight/Fa/vo+1)*vo,[d,h]=[Math.max(0,u-vo),Math.max(0,u+f+vo)];s(g=>g.first===d&&g.last===h?g:{first:d,last:h})};r();let l=new ResizeObserver(r);return l.observe(i),l.observe(i.firstElementChild),i.addEventListener("scroll",r,{passive:!0}),()=>{l.disconnect(),i.removeEventListener("scroll",r)}},[]),[Math.min(n.first,Math.max(0,e-1)),Math.min(e,n.last)]}function D$(t,e){let[n,s]=M({text:null,tokens:[]});return O(()=>{let o=ua(e);if(!o||t===""||t.length>sE)return;let i=!0;return Or(t,o).then(r=>i&&r&&s({text:t,tokens:r})),()=>{i=!1}},[t,e]),n.text===t?n.tokens:[]}function N$({changes:t,item:e,index:n,isOpen:s}){let o=()=>t.open(e.path,!s);return c`<section class="change" aria-label=${Nn(e.path)}>
    <h3>
      <button type="button" class="plain change-head" aria-expanded=${s} onClick=${o}>
        <span class="fold-mark" aria-hidden="true">${s?"▾":"▸"}</span>
        <span class="change-path mono"><${Pa} item=${e} /></span>
        <${xe} kind=${_i[e.status]}>${e.status}<//>
        ${e.binary?c`<span class="dim">binary</span>`:c`<${Sn} ...${e} />`}
      </button>
    </h3>
    ${s&&c`<${cE} changes=${t} item=${e} index=${n} />`}
  </section>`}function cE({changes:t,item:e,index:n}){return e.binary?c`<p class="change-note">A binary file. Its content is in the patch, but not shown here.</p>`:c`<${uE} changes=${t} item=${e} index=${n} />`}function uE({changes:t,item:e,index:n}){let s=t.patch.value;if(O(()=>{s===null&&t.loadPatch()},[s]),s===null)return c`<p class="change-note" aria-busy="true">Loading…</p>`;if(s.problem)return c`<${ge} problem=${s.problem} onRetry=${()=>fE(t)} />`;let o=s.parts[n];return o===void 0?c`<p class="change-note">The patch is too large to show this file. Download it to see all changes.</p>`:c`<${dE} part=${o} item=${e} />`}async function fE(t){await t.refresh(),await t.loadPatch()}function dE({part:t,item:e}){let n=de(()=>Da(t),[t]),s=n.lines.length?n.facts:[...n.facts,pE(e)];return c`${s.map(o=>c`<p key=${o} class="change-note">${o}</p>`)}
    ${n.lines.length>0&&c`<${za} diff=${n} path=${e.path} />`}
    ${n.isFull&&c`<p class="change-note">Showing the first ${x(_f)} lines. Download the patch to see the rest.</p>`}`}function pE({status:t}){return t==="renamed"?"Renamed without other changes.":t==="modified"?"No lines changed.":"The file is empty."}var kf=200,F$="A run is active. Wait until it ends or cancel it, then restore.";function W$({state:t,changes:e,onClose:n}){let s=le(),o=e.checkpoints.value??[],[i,r]=M(e.from.value??o[0]?.id),[l,a]=hE(e,i),[u,f]=M(null),d=t.session.value.status!=="idle",h=async()=>{let v;try{v=await e.restore(i)}catch(k){f(k.code==="session_running"?F$:k.message);return}let _=`To undo this, restore “${Pr(v.saved)}”.`;ve(`Workspace restored. ${mE(v.skipped)}${_}`),n()},g=l.list!==void 0&&q$(l.list).length===0;return c`<${et} title="Restore a checkpoint" onClose=${n}>
    <div class="field">
      <label for=${s}>Checkpoint</label>
      <select id=${s} value=${i} onChange=${({currentTarget:v})=>r(v.value)}>
        ${o.map(v=>c`<option key=${v.id} value=${v.id}>${Pr(v)}</option>`)}
      </select>
    </div>
    <div class="restore-preview" aria-live="polite" aria-busy=${!l.list&&!l.problem}>
      ${l.problem&&c`<${ge} problem=${l.problem} onRetry=${a} />`}
      ${!l.list&&!l.problem&&c`<p class="dim">Comparing with the workspace…</p>`}
      ${l.list&&c`<${$E} list=${l.list} />`}
    </div>
    <p>
      The workspace as it is now is saved as a checkpoint first, so you can undo this. The conversation stays, and so do
      files that checkpoints don't cover.
    </p>
    ${(d||u)&&c`<p class="restore-refusal" role="alert">${d?F$:u}</p>`}
    <footer>
      <button type="button" onClick=${n}>Cancel</button>
      <${q} kind="danger" disabled=${d||g||!l.list} onClick=${h}>Restore<//>
    </footer>
  <//>`}function hE(t,e){let[n,s]=M({}),[o,i]=M(0);return O(()=>{let r=!0;return s({}),t.preview(e).then(l=>r&&s({list:l}),l=>r&&s({problem:l})),()=>{r=!1}},[e,o]),[n,()=>i(o+1)]}function mE({items:t,truncated:e}){return t.length===0?"":`Skipped ${qs(t.length)}${e?" or more":""} that checkpoints don't cover. `}var B$=({path:t},e)=>e.items.some(({path:n})=>t===n||t.startsWith(`${n}/`)),gE={added:"deleted",deleted:"added",modified:"modified",renamed:"renamed"},q$=({items:t,not_covered:e})=>t.filter(n=>!B$(n,e)),z$=(t,e)=>t.reduce((n,s)=>n+(s[e]??0),0);function $E({list:t}){let{items:e,truncated:n,not_covered:s}=t;if(e.length===0)return c`<p>The workspace is already as it was then.</p>`;let o=q$(t);return c`<p>
      This changes <strong>${qs(o.length)}${n?" or more":""}</strong>:
      ${" "}<${Sn} additions=${z$(o,"deletions")} deletions=${z$(o,"additions")} />
    </p>
    <div class="restore-files" tabindex="0" role="region" aria-label="Files that change">
      <ul>
        ${e.slice(0,kf).map(i=>c`<${vE} key=${i.path} item=${i} isKept=${B$(i,s)} />`)}
        ${e.length>kf&&c`<li class="dim">and ${x(e.length-kf)} more</li>`}
      </ul>
    </div>`}function vE({item:{path:t,old_path:e,status:n,binary:s,additions:o,deletions:i},isKept:r}){if(r)return c`<li><${xe} kind="">kept<//>${" "}<code><bdi>${Nn(t)}</bdi></code></li>`;let l=gE[n];return c`<li>
    <${xe} kind=${_i[l]}>${l}<//>${" "}
    <code><bdi>${Nn(t)}</bdi>${e!==null&&c` → <bdi>${Nn(e)}</bdi>`}</code>${" "}
    ${!s&&c`<${Sn} additions=${i} deletions=${o} />`}
  </li>`}var bE=8*1024*1024,xf=new WeakMap,U$=!1;function Dr(t){return xf.has(t)||xf.set(t,new Sf(t.id)),xf.get(t)}function bs(t,e,n,s=null){let o=new URLSearchParams;for(let[r,l]of Object.entries({from:e,to:n,format:s}))l!==null&&o.set(r,l);let i=I(t,"changes");return o.size?`${i}?${o}`:i}var Sf=class{checkpoints=C(null);from=C(null);to=C(null);list=C(null);loadedAt=C(null);loading=C(!1);problem=C(null);patch=C(null);opened=C(new Map);#e;#t=0;#n=null;#s=new Map;#o=null;constructor(e){this.#e=e}get id(){return this.#e}choose(e,n){e===this.from.value&&n===this.to.value&&this.list.value||me(()=>{this.from.value=e,this.to.value=n,this.list.value=null,this.opened.value=new Map,this.#i()})}#i(){this.#n=null,this.patch.value=null}loadCheckpoints(){return this.#o??=W(I(this.#e,"checkpoints")).then(({items:e})=>this.checkpoints.value=e).finally(()=>this.#o=null),this.#o}async findCheckpoints(){U$||await this.loadCheckpoints().catch(({code:e})=>U$=e==="checkpoints_unavailable")}async refresh(){let e=this.#t+=1;this.loading.value=!0;try{let[,n]=await Promise.all([this.loadCheckpoints(),this.#r()]);e===this.#t&&this.#l(n)}catch(n){e===this.#t&&(this.problem.value=n)}finally{e===this.#t&&(this.loading.value=!1)}}#l(e){me(()=>{JSON.stringify(e)!==JSON.stringify(this.list.value)&&(this.list.value=e,this.#i()),this.patch.value?.problem&&this.#i();let{from_checkpoint:n,to_checkpoint:s}=e;n!==null&&s!==null&&(this.summary(n,s,!1).value=e),this.loadedAt.value=Date.now(),this.problem.value=null})}async#r(){try{return await W(bs(this.#e,this.from.value,this.to.value))}catch(e){if(e.code!=="checkpoint_not_found")throw e;return this.from.value=this.to.value=null,W(bs(this.#e,null,null))}}summary(e,n,s){let o=`${e} ${n}`,i=this.#s.get(o)??C(null);return this.#s.set(o,i),s&&i.peek()===null&&!i.isLoading&&(i.isLoading=!0,W(bs(this.#e,e,n)).then(r=>i.value=r).catch(()=>{}).finally(()=>i.isLoading=!1)),i}loadPatch(){return this.#n??=this.#a(),this.#n}async#a(){let e=this.list.value,n;try{n=this.#c(await j$(this.#e,this.from.value,this.to.value),e)}catch(s){n={parts:[],isCut:!1,problem:s}}e===this.list.value&&(this.patch.value=n,n.problem&&(this.#n=null))}#c({text:e,isCut:n},s){let o=R$(e);n&&o.pop();let i=s.items.length;if(!(n||s.truncated||o.length===i)||o.some((l,a)=>a<i&&!L$(l,s.items[a])))throw new Error("The workspace has changed since the list was loaded. Refresh it.");return{parts:o,isCut:n,problem:null}}async text(){let{text:e,isCut:n}=await j$(this.#e,this.from.value,this.to.value);if(n)throw new Error("The patch is too large to copy. Download it instead.");if(e.includes("�"))throw new Error("The patch is not UTF-8 text. Download it instead.");return e}preview(e){return W(bs(this.#e,e,null))}async restore(e){let n=await Me(I(this.#e,"checkpoints",e,"restore"));return await this.refresh(),n}open(e,n){this.opened.value=new Map(this.opened.value).set(e,n)}};async function j$(t,e,n){let s=new AbortController,o=await Wt("GET",bs(t,e,n,"patch"),{signal:s.signal}),i=new TextDecoder,r=o.body.getReader(),l=[];for(let a=0;;){let{done:u,value:f}=await r.read();if(u)return{text:l.join("")+i.decode(),isCut:!1};if(a+=f.length,l.push(i.decode(f,{stream:!0})),!(a<bE))return s.abort(),{text:l.join(""),isCut:!0}}}var Ef=100,wE=300,yE=2e3,_E=new Set(["session.running","session.idle","workspace.restored"]);function G$({state:t}){let e=Dr(t),[n,s]=M(!1),o=e.from.value,i=e.to.value,r=fo(()=>t.log.value.findLast(({type:u})=>_E.has(u))?.seq).value;O(()=>{e.refresh()},[r,o,i]);let l=e.list.value,a=e.problem.value;return c`<div class="changes-view">
    <${kE} state=${t} changes=${e} onRestore=${()=>s(!0)} />
    ${a&&c`<${ge} problem=${a} onRetry=${()=>e.refresh()} />`}
    ${!l&&!a&&c`<p class="dim" aria-busy="true">Loading…</p>`}
    ${l&&c`<${xE} state=${t} changes=${e} list=${l} />`}
    ${n&&c`<${W$} ...${{state:t,changes:e,onClose:()=>s(!1)}} />`}
  </div>`}function kE({state:t,changes:e,onRestore:n}){let s=le(),o=e.checkpoints.value??[],i=e.from.value??o[0]?.id??"",r=e.to.value??"",l=e.list.value?.items.length>0,a=bs(t.id,e.from.value,e.to.value,"patch");return c`<div class="changes-bar">
    <div class="changes-side">
      <label for="${s}-from">From</label>
      <${H$} id="${s}-from" items=${o} value=${i}
        onChoose=${f=>e.choose(f,e.to.value)} />
    </div>
    <div class="changes-side">
      <label for="${s}-to">To</label>
      <${H$} id="${s}-to" items=${o} value=${r} hasNow=${!0}
        onChoose=${f=>e.choose(e.from.value,f||null)} />
    </div>
    <div class="changes-ways">
      <${q} onClick=${()=>e.refresh()}>Refresh<//>
      ${l&&c`<${q} onClick=${async()=>{await _n(await e.text()),ve("Patch copied.")}}>Copy patch<//>`}
      ${l&&c`<a class="button" href=${a} download=${`${t.id}.patch`}>Download patch</a>`}
      ${o.length>0&&c`<button type="button" onClick=${n}>Restore…</button>`}
    </div>
  </div>`}function H$({id:t,items:e,value:n,onChoose:s,hasNow:o=!1}){return c`<select id=${t} value=${n} disabled=${e.length===0}
    onChange=${({currentTarget:i})=>s(i.value)}>
    ${e.length===0&&!o&&c`<option value="">No checkpoints</option>`}
    ${e.map(i=>c`<option key=${i.id} value=${i.id}>${Pr(i)}</option>`)}
    ${o&&c`<option value="">Now</option>`}
  </select>`}function xE({state:t,changes:e,list:n}){let[s,o]=M(Ef),{items:i,truncated:r,not_covered:l}=n,a=SE(i,e.opened.value),u=i.length-s;return c`<${EE} state=${t} changes=${e} list=${n} />
    ${i.length===0&&c`<${CE} state=${t} list=${n} />`}
    <div class="changed-files">
      ${i.slice(0,s).map((f,d)=>c`<${N$} key=${`${d} ${f.path}`} isOpen=${a[d]} ...${{changes:e,item:f,index:d}} />`)}
    </div>
    ${u>0&&c`<p class="more">
      <button type="button" onClick=${()=>o(s+Ef)}>
        Show ${x(Math.min(u,Ef))} of ${x(u)} more ${u===1?"file":"files"}
      </button>
    </p>`}
    ${r&&c`<p class="dim">Only the first ${qs(i.length)} are listed. The patch has all of them.</p>`}
    <${ME} uncovered=${l} />`}function SE(t,e){let n=0;return t.map(({path:s,binary:o,additions:i,deletions:r})=>{let l=i+r,a=!o&&l<=wE&&n+l<=yE;return a&&(n+=l+1),e.get(s)??a})}function EE({state:t,changes:e,list:n}){let s=t.session.value.status!=="idle"&&e.to.value===null,o=Rt(e.loadedAt.value);return c`<p class="changes-sum" role="status">
    ${n.items.length>0&&c`<strong>${qs(n.items.length)}${n.truncated?" or more":""} changed</strong> <${Sn} ...${n} />`}
    ${s&&c` <span class="dim">A run is active. These are the changes as of ${o}.</span>`}
  </p>`}function CE({state:t,list:e}){let n=e.from_checkpoint===null,[s,o]=M(null);return O(()=>{n&&OE(t.id).then(o,()=>{})},[n]),c`<div class="changes-empty">
    <h2>No changes</h2>
    <p>${TE(e,t.session.value,s)}</p>
    ${e.not_covered.items.length>0&&c`<p class="dim">Files that checkpoints don't cover aren't compared.</p>`}
  </div>`}function TE({from_checkpoint:t,to_checkpoint:e},{status:n,outcome:s},o){return t!==null?t===e?"This compares a checkpoint with itself.":"The files are the same on both sides.":o?`No checkpoint could be taken, so there is nothing to compare with: ${L(o.detail)}`:n==="idle"&&s===null?"The session has not run yet. The first checkpoint is taken when a run starts.":"There is no checkpoint to compare with yet."}async function OE(t){return(await W(`${I(t,"log")}?types=checkpoint.failed&order=desc&limit=1`)).items[0]?.data??null}var AE={ignored:"Ignored by .gitignore",too_large:"Too large",cache:"Caches and dependencies",git:"Git's own data",internal:"Palimpsest's own files",unreadable:"Can't be read",secret:"Contains a secret"};function ME({uncovered:{items:t,truncated:e}}){if(t.length===0)return null;let n=Map.groupBy(t,({reason:s})=>s);return c`<details class="not-covered">
    <summary>Not covered by checkpoints (${x(t.length)}${e?" or more":""})</summary>
    <p class="dim">These are not compared, not in the patch, and a restore leaves them as they are.</p>
    ${[...n].map(([s,o])=>c`<h3 key=${s}>${AE[s]??s}</h3>
        <ul>
          ${o.map(({path:i})=>c`<li key=${i}><code><bdi>${Nn(i)}</bdi></code></li>`)}
        </ul>`)}
    ${e&&c`<p class="dim">There are more.</p>`}
  </details>`}var Wa=65536,RE=100,Cf=new WeakMap;function qa(t){return Cf.has(t)||Cf.set(t,new Tf(t)),Cf.get(t)}var Tf=class{step=C(null);data=C(null);loading=C(!1);problem=C(null);#e;#t=0;constructor(e){this.#e=e}choose(e){return this.step.value=e,this.load()}async load(){let e=++this.#t,{value:n}=this.step;this.loading.value=!0;try{let s=n===null?"":`?step=${n}`,o=await W(`${I(this.#e.id,"context")}${s}`);if(e!==this.#t)return;this.data.value={...o,messages:LE(this.data.value?.messages??[],o.messages)},this.problem.value=null}catch(s){e===this.#t&&(this.problem.value=s)}finally{e===this.#t&&(this.loading.value=!1)}}};function LE(t,e){let n=new Map(t.map(s=>[s.message.id,s]));return e.map(s=>{let o=n.get(s.message.id);return o&&JSON.stringify(o)===JSON.stringify(s)?o:s})}function V$({system:t,tools:e,messages:n}){let s={summary:"Summaries",placeholder:"Placeholders",clip:"Clipped"},o={Messages:[],Summaries:[],Clipped:[],Placeholders:[]};for(let r of n)o[s[r.reason]??"Messages"].push(r);let i=r=>r.reduce((l,{tokens:a})=>l+a,0);return[{name:"System",tokens:t.tokens,count:1},{name:"Tools",tokens:i(e),count:e.length},...Object.entries(o).map(([r,l])=>({name:r,tokens:i(l),count:l.length}))]}async function K$(t,{id:e,seq:n}){return(await W(`${I(t,"messages")}?after=${Math.max(0,n-1)}&limit=1`)).items.find(o=>o.id===e)??null}async function Y$(t,e){let n=I(t,"tool-calls",e,"output"),o=(await W(I(t,"tool-calls",e))).result?.bytes??0;return o===0?{text:"",isWhole:!0,size:o}:{text:await(await Wt("GET",n,{headers:{Range:`bytes=0-${Wa-1}`}})).text(),isWhole:o<=Wa,size:o}}var Ba=class{messages=C([]);isWhole=C(!1);#e;#t;#n=null;constructor(e,n,s){this.#e=e,this.#t=n,this.steps=s}async more(){this.#n??=await this.#o()-1;let e=this.messages.value.length>0,n=this.#t.first_message_id;for(;;){let s=I(this.#e.id,"messages"),o=await W(`${s}?after=${Math.max(0,this.#n)}&limit=${RE}`);this.#n=o.next_cursor??1/0;let i=e?0:o.items.findIndex(({id:r})=>r===n);if(i>=0&&(e=!0,this.#s(o.items.slice(i))),o.next_cursor===null&&(this.isWhole.value=!0),e||o.next_cursor===null)return}}#s(e){let n=e.findIndex(({id:s})=>s===this.#t.last_message_id);n>=0&&(this.isWhole.value=!0),this.messages.value=[...this.messages.value,...n>=0?e.slice(0,n+1):e]}async#o(){let{first_message_id:e,created_at:n}=this.#t,s=this.#e.transcript.message(e)?.peek().seq;if(s!==void 0)return s;let o=this.steps.findLast(({started_at:r})=>!n||Date.parse(r)<=Date.parse(n));if(!o)return 1;let{messages:i}=await W(`${I(this.#e.id,"context")}?step=${o.step}`);return i.find(({message:r})=>r.id===e)?.message.seq??1}};var PE="uplot",IE="u-hz",DE="u-vt",NE="u-title",FE="u-wrap",zE="u-under",WE="u-over",BE="u-axis",yo="u-off",qE="u-select",UE="u-cursor-x",jE="u-cursor-y",HE="u-cursor-pt",GE="u-legend",VE="u-live",KE="u-inline",YE="u-series",ZE="u-marker",Z$="u-label",JE="u-value",Fr="width",zr="height";var J$="bottom",xi="left",Of="right",Gf="#000",Q$=Gf+"0",Af="mousemove",X$="mousedown",Mf="mouseup",ev="mouseenter",tv="mouseleave",nv="dblclick",QE="resize",XE="scroll",sv="change",Va="dppxchange",Vf="--",Mi=typeof window<"u",Df=Mi?document:null,Ei=Mi?window:null,eC=Mi?navigator:null,Re,Ua;function Nf(){let t=devicePixelRatio;Re!=t&&(Re=t,Ua&&zf(sv,Ua,Nf),Ua=matchMedia(`(min-resolution: ${Re-.001}dppx) and (max-resolution: ${Re+.001}dppx)`),_o(sv,Ua,Nf),Ei.dispatchEvent(new CustomEvent(Va)))}function on(t,e){if(e!=null){let n=t.classList;!n.contains(e)&&n.add(e)}}function Ff(t,e){let n=t.classList;n.contains(e)&&n.remove(e)}function Ye(t,e,n){t.style[e]=n+"px"}function Fn(t,e,n,s){let o=Df.createElement(t);return e!=null&&on(o,e),n?.insertBefore(o,s),o}function En(t,e){return Fn("div",t,e)}var ov=new WeakMap;function ss(t,e,n,s,o){let i="translate("+e+"px,"+n+"px)",r=ov.get(t);i!=r&&(t.style.transform=i,ov.set(t,i),e<0||n<0||e>s||n>o?on(t,yo):Ff(t,yo))}var iv=new WeakMap;function rv(t,e,n){let s=e+n,o=iv.get(t);s!=o&&(iv.set(t,s),t.style.background=e,t.style.borderColor=n)}var lv=new WeakMap;function av(t,e,n,s){let o=e+""+n,i=lv.get(t);o!=i&&(lv.set(t,o),t.style.height=n+"px",t.style.width=e+"px",t.style.marginLeft=s?-e/2+"px":0,t.style.marginTop=s?-n/2+"px":0)}var Kf={passive:!0},tC={...Kf,capture:!0};function _o(t,e,n,s){e.addEventListener(t,n,s?tC:Kf)}function zf(t,e,n,s){e.removeEventListener(t,n,Kf)}Mi&&Nf();function zn(t,e,n,s){let o;n=n||0,s=s||e.length-1;let i=s<=2147483647;for(;s-n>1;)o=i?n+s>>1:rn((n+s)/2),e[o]<t?n=o:s=o;return t-e[n]<=e[s]-t?n:s}function Dv(t){return(n,s,o)=>{let i=-1,r=-1;for(let l=s;l<=o;l++)if(t(n[l])){i=l;break}for(let l=o;l>=s;l--)if(t(n[l])){r=l;break}return[i,r]}}var Nv=t=>t!=null,Fv=t=>t!=null&&t>0,Za=Dv(Nv),nC=Dv(Fv);function sC(t,e,n,s=0,o=!1){let i=o?nC:Za,r=o?Fv:Nv;[e,n]=i(t,e,n);let l=t[e],a=t[e];if(e>-1)if(s==1)l=t[e],a=t[n];else if(s==-1)l=t[n],a=t[e];else for(let u=e;u<=n;u++){let f=t[u];r(f)&&(f<l?l=f:f>a&&(a=f))}return[l??qe,a??-qe]}function Ja(t,e,n,s){let o=fv(t),i=fv(e);t==e&&(o==-1?(t*=n,e/=n):(t/=n,e*=n));let r=n==10?ws:zv,l=o==1?rn:Cn,a=i==1?Cn:rn,u=l(r(bt(t))),f=a(r(bt(e))),d=Ci(n,u),h=Ci(n,f);return n==10&&(u<0&&(d=Ue(d,-u)),f<0&&(h=Ue(h,-f))),s||n==2?(t=d*o,e=h*i):(t=Uv(t,d),e=Qa(e,h)),[t,e]}function Yf(t,e,n,s){let o=Ja(t,e,n,s);return t==0&&(o[0]=0),e==0&&(o[1]=0),o}var Zf=.1,cv={mode:3,pad:Zf},Br={pad:0,soft:null,mode:0},oC={min:Br,max:Br};function Ka(t,e,n,s){return Xa(n)?uv(t,e,n):(Br.pad=n,Br.soft=s?0:null,Br.mode=s?3:0,uv(t,e,oC))}function Te(t,e){return t??e}function iC(t,e,n){for(e=Te(e,0),n=Te(n,t.length-1);e<=n;){if(t[e]!=null)return!0;e++}return!1}function uv(t,e,n){let s=n.min,o=n.max,i=Te(s.pad,0),r=Te(o.pad,0),l=Te(s.hard,-qe),a=Te(o.hard,qe),u=Te(s.soft,qe),f=Te(o.soft,-qe),d=Te(s.mode,0),h=Te(o.mode,0),g=e-t,v=ws(g),_=Ut(bt(t),bt(e)),k=ws(_),T=bt(k-v);(g<1e-24||T>10)&&(g=0,(t==0||e==0)&&(g=1e-24,d==2&&u!=qe&&(i=0),h==2&&f!=-qe&&(r=0)));let y=g||_||1e3,E=ws(y),A=Ci(10,rn(E)),U=y*(g==0?t==0?.1:1:i),F=Ue(Uv(t-U,A/10),24),G=t>=u&&(d==1||d==3&&F<=u||d==2&&F>=u)?u:qe,K=Ut(l,F<G&&t>=G?G:Wn(G,F)),se=y*(g==0?e==0?.1:1:r),J=Ue(Qa(e+se,A/10),24),N=e<=f&&(h==1||h==3&&J>=f||h==2&&J<=f)?f:-qe,Q=Wn(a,J>N&&e<=N?N:Ut(N,J));return K==Q&&K==0&&(Q=100),[K,Q]}var rC=new Intl.NumberFormat(Mi?eC.language:"en-US"),Jf=t=>rC.format(t),ln=Math,Ga=ln.PI,bt=ln.abs,rn=ln.floor,vt=ln.round,Cn=ln.ceil,Wn=ln.min,Ut=ln.max,Ci=ln.pow,fv=ln.sign,ws=ln.log10,zv=ln.log2,lC=(t,e=1)=>ln.sinh(t)*e,Rf=(t,e=1)=>ln.asinh(t/e),qe=1/0;function dv(t){return(ws((t^t>>31)-(t>>31))|0)+1}function Wf(t,e,n){return Wn(Ut(t,e),n)}function Wv(t){return typeof t=="function"}function ye(t){return Wv(t)?t:()=>t}var aC=()=>{},Bv=t=>t,qv=(t,e)=>e,cC=t=>null,pv=t=>!0,hv=(t,e)=>t==e,uC=/\.\d*?(?=9{6,}|0{6,})/gm,ko=t=>{if(Hv(t)||js.has(t))return t;let e=`${t}`,n=e.match(uC);if(n==null)return t;let s=n[0].length-1;if(e.indexOf("e-")!=-1){let[o,i]=e.split("e");return+`${ko(o)}e${i}`}return Ue(t,s)};function bo(t,e){return ko(Ue(ko(t/e))*e)}function Qa(t,e){return ko(Cn(ko(t/e))*e)}function Uv(t,e){return ko(rn(ko(t/e))*e)}function Ue(t,e=0){if(Hv(t))return t;let n=10**e,s=t*n*(1+Number.EPSILON);return vt(s)/n}var js=new Map;function jv(t){return((""+t).split(".")[1]||"").length}function Ur(t,e,n,s){let o=[],i=s.map(jv);for(let r=e;r<n;r++){let l=bt(r),a=Ue(Ci(t,r),l);for(let u=0;u<s.length;u++){let f=t==10?+`${s[u]}e${r}`:s[u]*a,d=(r>=0?0:l)+(r>=i[u]?0:i[u]),h=t==10?f:Ue(f,d);o.push(h),js.set(h,d)}}return o}var qr={},Qf=[],Ti=[null,null],Us=Array.isArray,Hv=Number.isInteger,fC=t=>t===void 0;function mv(t){return typeof t=="string"}function Xa(t){let e=!1;if(t!=null){let n=t.constructor;e=n==null||n==Object}return e}function dC(t){return t!=null&&typeof t=="object"}var pC=Object.getPrototypeOf(Uint8Array),Gv="__proto__";function Oi(t,e=Xa){let n;if(Us(t)){let s=t.find(o=>o!=null);if(Us(s)||e(s)){n=Array(t.length);for(let o=0;o<t.length;o++)n[o]=Oi(t[o],e)}else n=t.slice()}else if(t instanceof pC)n=t.slice();else if(e(t)){n={};for(let s in t)s!=Gv&&(n[s]=Oi(t[s],e))}else n=t;return n}function dt(t){let e=arguments;for(let n=1;n<e.length;n++){let s=e[n];for(let o in s)o!=Gv&&(Xa(t[o])?dt(t[o],Oi(s[o])):t[o]=Oi(s[o]))}return t}var hC=0,mC=1,gC=2;function $C(t,e,n){for(let s=0,o,i=-1;s<e.length;s++){let r=e[s];if(r>i){for(o=r-1;o>=0&&t[o]==null;)t[o--]=null;for(o=r+1;o<n&&t[o]==null;)t[i=o++]=null}}}function vC(t,e){if(yC(t)){let r=t[0].slice();for(let l=1;l<t.length;l++)r.push(...t[l].slice(1));return _C(r[0])||(r=wC(r)),r}let n=new Set;for(let r=0;r<t.length;r++){let a=t[r][0],u=a.length;for(let f=0;f<u;f++)n.add(a[f])}let s=[Array.from(n).sort((r,l)=>r-l)],o=s[0].length,i=new Map;for(let r=0;r<o;r++)i.set(s[0][r],r);for(let r=0;r<t.length;r++){let l=t[r],a=l[0];for(let u=1;u<l.length;u++){let f=l[u],d=Array(o).fill(void 0),h=e?e[r][u]:mC,g=[];for(let v=0;v<f.length;v++){let _=f[v],k=i.get(a[v]);_===null?h!=hC&&(d[k]=_,h==gC&&g.push(k)):d[k]=_}$C(d,g,o),s.push(d)}}return s}var bC=typeof queueMicrotask>"u"?t=>Promise.resolve().then(t):queueMicrotask;function wC(t){let e=t[0],n=e.length,s=Array(n);for(let i=0;i<s.length;i++)s[i]=i;s.sort((i,r)=>e[i]-e[r]);let o=[];for(let i=0;i<t.length;i++){let r=t[i],l=Array(n);for(let a=0;a<n;a++)l[a]=r[s[a]];o.push(l)}return o}function yC(t){let e=t[0][0],n=e.length;for(let s=1;s<t.length;s++){let o=t[s][0];if(o.length!=n)return!1;if(o!=e){for(let i=0;i<n;i++)if(o[i]!=e[i])return!1}}return!0}function _C(t,e=100){let n=t.length;if(n<=1)return!0;let s=0,o=n-1;for(;s<=o&&t[s]==null;)s++;for(;o>=s&&t[o]==null;)o--;if(o<=s)return!0;let i=Ut(1,rn((o-s+1)/e));for(let r=t[s],l=s+i;l<=o;l+=i){let a=t[l];if(a!=null){if(a<=r)return!1;r=a}}return!0}var Vv=["January","February","March","April","May","June","July","August","September","October","November","December"],Kv=["Sunday","Monday","Tuesday","Wednesday","Thursday","Friday","Saturday"];function Yv(t){return t.slice(0,3)}var kC=Kv.map(Yv),xC=Vv.map(Yv),SC={MMMM:Vv,MMM:xC,WWWW:Kv,WWW:kC};function Nr(t){return(t<10?"0":"")+t}function EC(t){return(t<10?"00":t<100?"0":"")+t}var CC={YYYY:t=>t.getFullYear(),YY:t=>(t.getFullYear()+"").slice(2),MMMM:(t,e)=>e.MMMM[t.getMonth()],MMM:(t,e)=>e.MMM[t.getMonth()],MM:t=>Nr(t.getMonth()+1),M:t=>t.getMonth()+1,DD:t=>Nr(t.getDate()),D:t=>t.getDate(),WWWW:(t,e)=>e.WWWW[t.getDay()],WWW:(t,e)=>e.WWW[t.getDay()],HH:t=>Nr(t.getHours()),H:t=>t.getHours(),h:t=>{let e=t.getHours();return e==0?12:e>12?e-12:e},AA:t=>t.getHours()>=12?"PM":"AM",aa:t=>t.getHours()>=12?"pm":"am",a:t=>t.getHours()>=12?"p":"a",mm:t=>Nr(t.getMinutes()),m:t=>t.getMinutes(),ss:t=>Nr(t.getSeconds()),s:t=>t.getSeconds(),fff:t=>EC(t.getMilliseconds())};function Xf(t,e){e=e||SC;let n=[],s=/\{([a-z]+)\}|[^{]+/gi,o;for(;o=s.exec(t);)n.push(o[0][0]=="{"?CC[o[1]]:o[0]);return i=>{let r="";for(let l=0;l<n.length;l++)r+=typeof n[l]=="string"?n[l]:n[l](i,e);return r}}var TC=new Intl.DateTimeFormat().resolvedOptions().timeZone;function OC(t,e){let n;return e=="UTC"||e=="Etc/UTC"?n=new Date(+t+t.getTimezoneOffset()*6e4):e==TC?n=t:(n=new Date(t.toLocaleString("en-US",{timeZone:e})),n.setMilliseconds(t.getMilliseconds())),n}var Zv=t=>t%1==0,Ya=[1,2,2.5,5],AC=Ur(10,-32,0,Ya),Jv=Ur(10,0,32,Ya),MC=Jv.filter(Zv),wo=AC.concat(Jv),ed=`
`,Qv="{YYYY}",gv=ed+Qv,Xv="{M}/{D}",Wr=ed+Xv,ja=Wr+"/{YY}",e0="{aa}",RC="{h}:{mm}",Si=RC+e0,$v=ed+Si,vv=":{ss}",Ie=null;function t0(t){let e=t*1e3,n=e*60,s=n*60,o=s*24,i=o*30,r=o*365,a=(t==1?Ur(10,0,3,Ya).filter(Zv):Ur(10,-3,0,Ya)).concat([e,e*5,e*10,e*15,e*30,n,n*5,n*10,n*15,n*30,s,s*2,s*3,s*4,s*6,s*8,s*12,o,o*2,o*3,o*4,o*5,o*6,o*7,o*8,o*9,o*10,o*15,i,i*2,i*3,i*4,i*6,r,r*2,r*5,r*10,r*25,r*50,r*100]),u=[[r,Qv,Ie,Ie,Ie,Ie,Ie,Ie,1],[o*28,"{MMM}",gv,Ie,Ie,Ie,Ie,Ie,1],[o,Xv,gv,Ie,Ie,Ie,Ie,Ie,1],[s,"{h}"+e0,ja,Ie,Wr,Ie,Ie,Ie,1],[n,Si,ja,Ie,Wr,Ie,Ie,Ie,1],[e,vv,ja+" "+Si,Ie,Wr+" "+Si,Ie,$v,Ie,1],[t,vv+".{fff}",ja+" "+Si,Ie,Wr+" "+Si,Ie,$v,Ie,1]];function f(d){return(h,g,v,_,k,T)=>{let y=[],E=k>=r,A=k>=i&&k<r,U=d(v),F=Ue(U*t,3),G=Lf(U.getFullYear(),E?0:U.getMonth(),A||E?1:U.getDate()),K=Ue(G*t,3);if(A||E){let se=A?k/i:0,J=E?k/r:0,N=F==K?F:Ue(Lf(G.getFullYear()+J,G.getMonth()+se,1)*t,3),Q=new Date(vt(N/t)),B=Q.getFullYear(),Z=Q.getMonth();for(let X=0;N<=_;X++){let ce=Lf(B+J*X,Z+se*X,1),ne=ce-d(Ue(ce*t,3));N=Ue((+ce+ne)*t,3),N<=_&&y.push(N)}}else{let se=k>=o?o:k,J=rn(v)-rn(F),N=K+J+Qa(F-K,se);y.push(N);let Q=d(N),B=Q.getHours()+Q.getMinutes()/n+Q.getSeconds()/s,Z=k/s,X=h.axes[g]._space,ce=T/X;for(;N=Ue(N+k,t==1?0:3),!(N>_);)if(Z>1){let ne=rn(Ue(B+Z,6))%24,Ee=d(N).getHours()-ne;Ee>1&&(Ee=-1),N-=Ee*s,B=(B+Z)%24;let De=y[y.length-1];Ue((N-De)/k,3)*ce>=.7&&y.push(N)}else y.push(N)}return y}}return[a,u,f]}var[LC,PC,IC]=t0(1),[DC,NC,FC]=t0(.001);Ur(2,-53,53,[1]);function bv(t,e){return t.map(n=>n.map((s,o)=>o==0||o==8||s==null?s:e(o==1||n[8]==0?s:n[1]+s)))}function wv(t,e){return(n,s,o,i,r)=>{let l=e.find(v=>r>=v[0])||e[e.length-1],a,u,f,d,h,g;return s.map(v=>{let _=t(v),k=_.getFullYear(),T=_.getMonth(),y=_.getDate(),E=_.getHours(),A=_.getMinutes(),U=_.getSeconds(),F=k!=a&&l[2]||T!=u&&l[3]||y!=f&&l[4]||E!=d&&l[5]||A!=h&&l[6]||U!=g&&l[7]||l[1];return a=k,u=T,f=y,d=E,h=A,g=U,F(_)})}}function zC(t,e){let n=Xf(e);return(s,o,i,r,l)=>o.map(a=>n(t(a)))}function Lf(t,e,n){return new Date(t,e,n)}function yv(t,e){return e(t)}var WC="{YYYY}-{MM}-{DD} {h}:{mm}{aa}";function _v(t,e){return(n,s,o,i)=>i==null?Vf:e(t(s))}function BC(t,e){let n=t.series[e];return n.width?n.stroke(t,e):n.points.width?n.points.stroke(t,e):null}function qC(t,e){return t.series[e].fill(t,e)}var UC={show:!0,live:!0,isolate:!1,mount:aC,markers:{show:!0,width:2,stroke:BC,fill:qC,dash:"solid"},idx:null,idxs:null,values:[]};function jC(t,e){let n=t.cursor.points,s=En(),o=n.size(t,e);Ye(s,Fr,o),Ye(s,zr,o);let i=o/-2;Ye(s,"marginLeft",i),Ye(s,"marginTop",i);let r=n.width(t,e,o);return r&&Ye(s,"borderWidth",r),s}function HC(t,e){let n=t.series[e].points;return n._fill||n._stroke}function GC(t,e){let n=t.series[e].points;return n._stroke||n._fill}function VC(t,e){return t.series[e].points.size}var Pf=[0,0];function KC(t,e,n){return Pf[0]=e,Pf[1]=n,Pf}function Ha(t,e,n,s=!0){return o=>{o.button==0&&(!s||o.target==e)&&n(o)}}function If(t,e,n,s=!0){return o=>{(!s||o.target==e)&&n(o)}}var YC={show:!0,x:!0,y:!0,lock:!1,move:KC,points:{one:!1,show:jC,size:VC,width:0,stroke:GC,fill:HC},bind:{mousedown:Ha,mouseup:Ha,click:Ha,dblclick:Ha,mousemove:If,mouseleave:If,mouseenter:If},drag:{setScale:!0,x:!0,y:!1,dist:0,uni:null,click:(t,e)=>{e.stopPropagation(),e.stopImmediatePropagation()},_x:!1,_y:!1},focus:{dist:(t,e,n,s,o)=>s-o,prox:-1,bias:0},hover:{skip:[void 0],prox:null,bias:0},left:-10,top:-10,idx:null,dataIdx:null,idxs:null,event:null},n0={show:!0,stroke:"rgba(0,0,0,0.07)",width:2},td=dt({},n0,{filter:qv}),s0=dt({},td,{size:10}),o0=dt({},n0,{show:!1}),nd='12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Noto Sans", sans-serif, "Apple Color Emoji", "Segoe UI Emoji", "Segoe UI Symbol", "Noto Color Emoji"',i0="bold "+nd,r0=1.5,kv={show:!0,scale:"x",stroke:Gf,space:50,gap:5,alignTo:1,size:50,labelGap:0,labelSize:30,labelFont:i0,side:2,grid:td,ticks:s0,border:o0,font:nd,lineGap:r0,rotate:0},ZC="Value",JC="Time",xv={show:!0,scale:"x",auto:!1,sorted:1,min:qe,max:-qe,idxs:[]};function QC(t,e,n,s,o){return e.map(i=>i==null?"":Jf(i))}function XC(t,e,n,s,o,i,r){let l=[],a=js.get(o)||0;n=r?n:Ue(Qa(n,o),a);for(let u=n;u<=s;u=Ue(u+o,a))l.push(Object.is(u,-0)?0:u);return l}function Bf(t,e,n,s,o,i,r){let l=[],a=t.scales[t.axes[e].scale].log,u=a==10?ws:zv,f=rn(u(n));o=Ci(a,f),a==10&&(o=wo[zn(o,wo)]);let d=n,h=o*a;a==10&&(h=wo[zn(h,wo)]);do l.push(d),d=d+o,a==10&&!js.has(d)&&(d=Ue(d,js.get(o))),d>=h&&(o=d,h=o*a,a==10&&(h=wo[zn(h,wo)]));while(d<=s);return l}function eT(t,e,n,s,o,i,r){let a=t.scales[t.axes[e].scale].asinh,u=s>a?Bf(t,e,Ut(a,n),s,o):[a],f=s>=0&&n<=0?[0]:[];return(n<-a?Bf(t,e,Ut(a,-s),-n,o):[a]).reverse().map(h=>-h).concat(f,u)}var l0=/./,tT=/[12357]/,nT=/[125]/,Sv=/1/,qf=(t,e,n,s)=>t.map((o,i)=>e==4&&o==0||i%s==0&&n.test(o.toExponential()[o<0?1:0])?o:null);function sT(t,e,n,s,o){let i=t.axes[n],r=i.scale,l=t.scales[r],a=t.valToPos,u=i._space,f=a(10,r),d=a(9,r)-f>=u?l0:a(7,r)-f>=u?tT:a(5,r)-f>=u?nT:Sv;if(d==Sv){let h=bt(a(1,r)-f);if(h<u)return qf(e.slice().reverse(),l.distr,d,Cn(u/h)).reverse()}return qf(e,l.distr,d,1)}function oT(t,e,n,s,o){let i=t.axes[n],r=i.scale,l=i._space,a=t.valToPos,u=bt(a(1,r)-a(2,r));return u<l?qf(e.slice().reverse(),3,l0,Cn(l/u)).reverse():e}function iT(t,e,n,s){return s==null?Vf:e==null?"":Jf(e)}var Ev={show:!0,scale:"y",stroke:Gf,space:30,gap:5,alignTo:1,size:50,labelGap:0,labelSize:30,labelFont:i0,side:3,grid:td,ticks:s0,border:o0,font:nd,lineGap:r0,rotate:0};function rT(t,e){let n=3+(t||1)*2;return Ue(n*e,3)}function lT(t,e){let{scale:n,idxs:s}=t.series[0],o=t._data[0],i=t.valToPos(o[s[0]],n,!0),r=t.valToPos(o[s[1]],n,!0),l=bt(r-i),a=t.series[e],u=l/(a.points.space*Re);return s[1]-s[0]<=u}var Cv={scale:null,auto:!0,sorted:0,min:qe,max:-qe},a0=(t,e,n,s,o)=>o,Tv={show:!0,auto:!0,sorted:0,gaps:a0,alpha:1,facets:[dt({},Cv,{scale:"x"}),dt({},Cv,{scale:"y"})]},Ov={scale:"y",auto:!0,sorted:0,show:!0,spanGaps:!1,gaps:a0,alpha:1,points:{show:lT,filter:null},values:null,min:qe,max:-qe,idxs:[],path:null,clip:null};function aT(t,e,n,s,o){return n/10}var c0={time:!0,auto:!0,distr:1,log:10,asinh:1,min:null,max:null,dir:1,ori:0},cT=dt({},c0,{time:!1,ori:1}),Av={};function u0(t,e){let n=Av[t];return n||(n={key:t,plots:[],sub(s){n.plots.push(s)},unsub(s){n.plots=n.plots.filter(o=>o!=s)},pub(s,o,i,r,l,a,u){for(let f=0;f<n.plots.length;f++)n.plots[f]!=o&&n.plots[f].pub(s,o,i,r,l,a,u)}},t!=null&&(Av[t]=n)),n}var Ai=1,Uf=2;function xo(t,e,n){let s=t.mode,o=t.series[e],i=s==2?t._data[e]:t._data,r=t.scales,l=t.bbox,a=i[0],u=s==2?i[1]:i[e],f=s==2?r[o.facets[0].scale]:r[t.series[0].scale],d=s==2?r[o.facets[1].scale]:r[o.scale],h=l.left,g=l.top,v=l.width,_=l.height,k=t.valToPosH,T=t.valToPosV;return f.ori==0?n(o,a,u,f,d,k,T,h,g,v,_,tc,Ri,sc,d0,h0):n(o,a,u,f,d,T,k,g,h,_,v,nc,Li,id,p0,m0)}function sd(t,e){let n=0,s=0,o=Te(t.bands,Qf);for(let i=0;i<o.length;i++){let r=o[i];r.series[0]==e?n=r.dir:r.series[1]==e&&(r.dir==1?s|=1:s|=2)}return[n,s==1?-1:s==2?1:s==3?2:0]}function uT(t,e,n,s,o){let i=t.mode,r=t.series[e],l=i==2?r.facets[1].scale:r.scale,a=t.scales[l];return o==-1?a.min:o==1?a.max:a.distr==3?a.dir==1?a.min:a.max:0}function ys(t,e,n,s,o,i){return xo(t,e,(r,l,a,u,f,d,h,g,v,_,k)=>{let T=r.pxRound,y=u.dir*(u.ori==0?1:-1),E=u.ori==0?Ri:Li,A,U;y==1?(A=n,U=s):(A=s,U=n);let F=T(d(l[A],u,_,g)),G=T(h(a[A],f,k,v)),K=T(d(l[U],u,_,g)),se=T(h(i==1?f.max:f.min,f,k,v)),J=new Path2D(o);return E(J,K,se),E(J,F,se),E(J,F,G),J})}function ec(t,e,n,s,o,i){let r=null;if(t.length>0){r=new Path2D;let l=e==0?sc:id,a=n;for(let d=0;d<t.length;d++){let h=t[d];if(h[1]>h[0]){let g=h[0]-a;g>0&&l(r,a,s,g,s+i),a=h[1]}}let u=n+o-a,f=10;u>0&&l(r,a,s-f/2,u,s+i+f)}return r}function fT(t,e,n){let s=t[t.length-1];s&&s[0]==e?s[1]=n:t.push([e,n])}function od(t,e,n,s,o,i,r){let l=[],a=t.length;for(let u=o==1?n:s;u>=n&&u<=s;u+=o)if(e[u]===null){let d=u,h=u;if(o==1)for(;++u<=s&&e[u]===null;)h=u;else for(;--u>=n&&e[u]===null;)h=u;let g=i(t[d]),v=h==d?g:i(t[h]),_=d-o;g=r<=0&&_>=0&&_<a?i(t[_]):g;let T=h+o;v=r>=0&&T>=0&&T<a?i(t[T]):v,v>=g&&l.push([g,v])}return l}function Mv(t){return t==0?Bv:t==1?vt:e=>bo(e,t)}function f0(t){let e=t==0?tc:nc,n=t==0?(o,i,r,l,a,u)=>{o.arcTo(i,r,l,a,u)}:(o,i,r,l,a,u)=>{o.arcTo(r,i,a,l,u)},s=t==0?(o,i,r,l,a)=>{o.rect(i,r,l,a)}:(o,i,r,l,a)=>{o.rect(r,i,a,l)};return(o,i,r,l,a,u=0,f=0)=>{u==0&&f==0?s(o,i,r,l,a):(u=Wn(u,l/2,a/2),f=Wn(f,l/2,a/2),e(o,i+u,r),n(o,i+l,r,i+l,r+a,u),n(o,i+l,r+a,i,r+a,f),n(o,i,r+a,i,r,f),n(o,i,r,i+l,r,u),o.closePath())}}var tc=(t,e,n)=>{t.moveTo(e,n)},nc=(t,e,n)=>{t.moveTo(n,e)},Ri=(t,e,n)=>{t.lineTo(e,n)},Li=(t,e,n)=>{t.lineTo(n,e)},sc=f0(0),id=f0(1),d0=(t,e,n,s,o,i)=>{t.arc(e,n,s,o,i)},p0=(t,e,n,s,o,i)=>{t.arc(n,e,s,o,i)},h0=(t,e,n,s,o,i,r)=>{t.bezierCurveTo(e,n,s,o,i,r)},m0=(t,e,n,s,o,i,r)=>{t.bezierCurveTo(n,e,o,s,r,i)};function g0(t){return(e,n,s,o,i)=>xo(e,n,(r,l,a,u,f,d,h,g,v,_,k)=>{let{pxRound:T,points:y}=r,E,A;u.ori==0?(E=tc,A=d0):(E=nc,A=p0);let U=Ue(y.width*Re,3),F=(y.size-y.width)/2*Re,G=Ue(F*2,3),K=new Path2D,se=new Path2D,{left:J,top:N,width:Q,height:B}=e.bbox;sc(se,J-G,N-G,Q+G*2,B+G*2);let Z=X=>{if(a[X]!=null){let ce=T(d(l[X],u,_,g)),ne=T(h(a[X],f,k,v));E(K,ce+F,ne),A(K,ce,ne,F,0,Ga*2)}};if(i)i.forEach(Z);else for(let X=s;X<=o;X++)Z(X);return{stroke:U>0?K:null,fill:K,clip:se,flags:Ai|Uf}})}function $0(t){return(e,n,s,o,i,r)=>{s!=o&&(i!=s&&r!=s&&t(e,n,s),i!=o&&r!=o&&t(e,n,o),t(e,n,r))}}var dT=$0(Ri),pT=$0(Li);function v0(t){let e=Te(t?.alignGaps,0);return(n,s,o,i)=>xo(n,s,(r,l,a,u,f,d,h,g,v,_,k)=>{[o,i]=Za(a,o,i);let T=r.pxRound,y=B=>T(d(B,u,_,g)),E=B=>T(h(B,f,k,v)),A,U;u.ori==0?(A=Ri,U=dT):(A=Li,U=pT);let F=u.dir*(u.ori==0?1:-1),G={stroke:new Path2D,fill:null,clip:null,band:null,gaps:null,flags:Ai},K=G.stroke,se=!1;if(i-o>=_*4){let B=ee=>n.posToVal(ee,u.key,!0),Z=null,X=null,ce,ne,jt,Ze=y(l[F==1?o:i]),Ee=y(l[o]),De=y(l[i]),he=B(F==1?Ee+1:De-1);for(let ee=F==1?o:i;ee>=o&&ee<=i;ee+=F){let pt=l[ee],Je=(F==1?pt<he:pt>he)?Ze:y(pt),Le=a[ee];Je==Ze?Le!=null?(ne=Le,Z==null?(A(K,Je,E(ne)),ce=Z=X=ne):ne<Z?Z=ne:ne>X&&(X=ne)):Le===null&&(se=!0):(Z!=null&&U(K,Ze,E(Z),E(X),E(ce),E(ne)),Le!=null?(ne=Le,A(K,Je,E(ne)),Z=X=ce=ne):(Z=X=null,Le===null&&(se=!0)),Ze=Je,he=B(Ze+F))}Z!=null&&Z!=X&&jt!=Ze&&U(K,Ze,E(Z),E(X),E(ce),E(ne))}else for(let B=F==1?o:i;B>=o&&B<=i;B+=F){let Z=a[B];Z===null?se=!0:Z!=null&&A(K,y(l[B]),E(Z))}let[N,Q]=sd(n,s);if(r.fill!=null||N!=0){let B=G.fill=new Path2D(K),Z=r.fillTo(n,s,r.min,r.max,N),X=E(Z),ce=y(l[o]),ne=y(l[i]);F==-1&&([ne,ce]=[ce,ne]),A(B,ne,X),A(B,ce,X)}if(!r.spanGaps){let B=[];se&&B.push(...od(l,a,o,i,F,y,e)),G.gaps=B=r.gaps(n,s,o,i,B),G.clip=ec(B,u.ori,g,v,_,k)}return Q!=0&&(G.band=Q==2?[ys(n,s,o,i,K,-1),ys(n,s,o,i,K,1)]:ys(n,s,o,i,K,Q)),G})}function hT(t){let e=Te(t.align,1),n=Te(t.ascDesc,!1),s=Te(t.alignGaps,0),o=Te(t.extend,!1);return(i,r,l,a)=>xo(i,r,(u,f,d,h,g,v,_,k,T,y,E)=>{[l,a]=Za(d,l,a);let A=u.pxRound,{left:U,width:F}=i.bbox,G=Ee=>A(v(Ee,h,y,k)),K=Ee=>A(_(Ee,g,E,T)),se=h.ori==0?Ri:Li,J={stroke:new Path2D,fill:null,clip:null,band:null,gaps:null,flags:Ai},N=J.stroke,Q=h.dir*(h.ori==0?1:-1),B=K(d[Q==1?l:a]),Z=G(f[Q==1?l:a]),X=Z,ce=Z;o&&e==-1&&(ce=U,se(N,ce,B)),se(N,Z,B);for(let Ee=Q==1?l:a;Ee>=l&&Ee<=a;Ee+=Q){let De=d[Ee];if(De==null)continue;let he=G(f[Ee]),ee=K(De);e==1?se(N,he,B):se(N,X,ee),se(N,he,ee),B=ee,X=he}let ne=X;o&&e==1&&(ne=U+F,se(N,ne,B));let[jt,Ze]=sd(i,r);if(u.fill!=null||jt!=0){let Ee=J.fill=new Path2D(N),De=u.fillTo(i,r,u.min,u.max,jt),he=K(De);se(Ee,ne,he),se(Ee,ce,he)}if(!u.spanGaps){let Ee=[];Ee.push(...od(f,d,l,a,Q,G,s));let De=u.width*Re/2,he=n||e==1?De:-De,ee=n||e==-1?-De:De;Ee.forEach(pt=>{pt[0]+=he,pt[1]+=ee}),J.gaps=Ee=u.gaps(i,r,l,a,Ee),J.clip=ec(Ee,h.ori,k,T,y,E)}return Ze!=0&&(J.band=Ze==2?[ys(i,r,l,a,N,-1),ys(i,r,l,a,N,1)]:ys(i,r,l,a,N,Ze)),J})}function Rv(t,e,n,s,o,i,r=qe){if(t.length>1){let l=null;for(let a=0,u=1/0;a<t.length;a++)if(e[a]!==void 0){if(l!=null){let f=bt(t[a]-t[l]);f<u&&(u=f,r=bt(n(t[a],s,o,i)-n(t[l],s,o,i)))}l=a}}return r}function mT(t){t=t||qr;let e=Te(t.size,[.6,qe,1]),n=t.align||0,s=t.gap||0,o=t.radius;o=o==null?[0,0]:typeof o=="number"?[o,0]:o;let i=ye(o),r=1-e[0],l=Te(e[1],qe),a=Te(e[2],1),u=Te(t.disp,qr),f=Te(t.each,g=>{}),{fill:d,stroke:h}=u;return(g,v,_,k)=>xo(g,v,(T,y,E,A,U,F,G,K,se,J,N)=>{let Q=T.pxRound,B=n,Z=s*Re,X=l*Re,ce=a*Re,ne,jt;A.ori==0?[ne,jt]=i(g,v):[jt,ne]=i(g,v);let Ze=A.dir*(A.ori==0?1:-1),Ee=A.ori==0?sc:id,De=A.ori==0?f:(V,He,ht,Po,Js,Hn,Qs)=>{f(V,He,ht,Js,Po,Qs,Hn)},he=Te(g.bands,Qf).find(V=>V.series[0]==v),ee=he!=null?he.dir:0,pt=T.fillTo(g,v,T.min,T.max,ee),It=Q(G(pt,U,N,se)),Je,Le,Tn,Zt=J,tt=Q(T.width*Re),jn=!1,rs=null,un=null,Cs=null,Mo=null;d!=null&&(tt==0||h!=null)&&(jn=!0,rs=d.values(g,v,_,k),un=new Map,new Set(rs).forEach(V=>{V!=null&&un.set(V,new Path2D)}),tt>0&&(Cs=h.values(g,v,_,k),Mo=new Map,new Set(Cs).forEach(V=>{V!=null&&Mo.set(V,new Path2D)})));let{x0:Ro,size:Vi}=u;if(Ro!=null&&Vi!=null){B=1,y=Ro.values(g,v,_,k),Ro.unit==2&&(y=y.map(ht=>g.posToVal(K+ht*J,A.key,!0)));let V=Vi.values(g,v,_,k);Vi.unit==2?Le=V[0]*J:Le=F(V[0],A,J,K)-F(0,A,J,K),Zt=Rv(y,E,F,A,J,K,Zt),Tn=Zt-Le+Z}else Zt=Rv(y,E,F,A,J,K,Zt),Tn=Zt*r+Z,Le=Zt-Tn;Tn<1&&(Tn=0),tt>=Le/2&&(tt=0),Tn<5&&(Q=Bv);let ul=Tn>0,Ys=Zt-Tn-(ul?tt:0);Le=Q(Wf(Ys,ce,X)),Je=(B==0?Le/2:B==Ze?0:Le)-B*Ze*((B==0?Z/2:0)+(ul?tt/2:0));let Dt={stroke:null,fill:null,clip:null,band:null,gaps:null,flags:0},Lo=jn?null:new Path2D,ls=null;if(he!=null)ls=g.data[he.series[1]];else{let{y0:V,y1:He}=u;V!=null&&He!=null&&(E=He.values(g,v,_,k),ls=V.values(g,v,_,k))}let Zs=ne*Le,fe=jt*Le;for(let V=Ze==1?_:k;V>=_&&V<=k;V+=Ze){let He=E[V];if(He==null)continue;if(ls!=null){let Ht=ls[V]??0;if(He-Ht==0)continue;It=G(Ht,U,N,se)}let ht=A.distr!=2||u!=null?y[V]:V,Po=F(ht,A,J,K),Js=G(Te(He,pt),U,N,se),Hn=Q(Po-Je),Qs=Q(Ut(Js,It)),Jt=Q(Wn(Js,It)),fn=Qs-Jt;if(He!=null){let Ht=He<0?fe:Zs,On=He<0?Zs:fe;jn?(tt>0&&Cs[V]!=null&&Ee(Mo.get(Cs[V]),Hn,Jt+rn(tt/2),Le,Ut(0,fn-tt),Ht,On),rs[V]!=null&&Ee(un.get(rs[V]),Hn,Jt+rn(tt/2),Le,Ut(0,fn-tt),Ht,On)):Ee(Lo,Hn,Jt+rn(tt/2),Le,Ut(0,fn-tt),Ht,On),De(g,v,V,Hn-tt/2,Jt,Le+tt,fn)}}return tt>0?Dt.stroke=jn?Mo:Lo:jn||(Dt._fill=T.width==0?T._fill:T._stroke??T._fill,Dt.width=0),Dt.fill=jn?un:Lo,Dt})}function gT(t,e){let n=Te(e?.alignGaps,0);return(s,o,i,r)=>xo(s,o,(l,a,u,f,d,h,g,v,_,k,T)=>{[i,r]=Za(u,i,r);let y=l.pxRound,E=ne=>y(h(ne,f,k,v)),A=ne=>y(g(ne,d,T,_)),U,F,G;f.ori==0?(U=tc,G=Ri,F=h0):(U=nc,G=Li,F=m0);let K=f.dir*(f.ori==0?1:-1),se=E(a[K==1?i:r]),J=se,N=[],Q=[];for(let ne=K==1?i:r;ne>=i&&ne<=r;ne+=K)if(u[ne]!=null){let Ze=a[ne],Ee=E(Ze);N.push(J=Ee),Q.push(A(u[ne]))}let B={stroke:t(N,Q,U,G,F,y),fill:null,clip:null,band:null,gaps:null,flags:Ai},Z=B.stroke,[X,ce]=sd(s,o);if(l.fill!=null||X!=0){let ne=B.fill=new Path2D(Z),jt=l.fillTo(s,o,l.min,l.max,X),Ze=A(jt);G(ne,J,Ze),G(ne,se,Ze)}if(!l.spanGaps){let ne=[];ne.push(...od(a,u,i,r,K,E,n)),B.gaps=ne=l.gaps(s,o,i,r,ne),B.clip=ec(ne,f.ori,v,_,k,T)}return ce!=0&&(B.band=ce==2?[ys(s,o,i,r,Z,-1),ys(s,o,i,r,Z,1)]:ys(s,o,i,r,Z,ce)),B})}function $T(t){return gT(vT,t)}function vT(t,e,n,s,o,i){let r=t.length;if(r<2)return null;let l=new Path2D;if(n(l,t[0],e[0]),r==2)s(l,t[1],e[1]);else{let a=Array(r),u=Array(r-1),f=Array(r-1),d=Array(r-1);for(let h=0;h<r-1;h++)f[h]=e[h+1]-e[h],d[h]=t[h+1]-t[h],u[h]=f[h]/d[h];a[0]=u[0];for(let h=1;h<r-1;h++)u[h]===0||u[h-1]===0||u[h-1]>0!=u[h]>0?a[h]=0:(a[h]=3*(d[h-1]+d[h])/((2*d[h]+d[h-1])/u[h-1]+(d[h]+2*d[h-1])/u[h]),isFinite(a[h])||(a[h]=0));a[r-1]=u[r-2];for(let h=0;h<r-1;h++)o(l,t[h]+d[h]/3,e[h]+a[h]*d[h]/3,t[h+1]-d[h]/3,e[h+1]-a[h+1]*d[h]/3,t[h+1],e[h+1])}return l}var jf=new Set;function Lv(){for(let t of jf)t.syncRect(!0)}Mi&&(_o(QE,Ei,Lv),_o(XE,Ei,Lv,!0),_o(Va,Ei,()=>{ct.pxRatio=Re}));var bT=v0(),wT=g0();function Pv(t,e,n,s){return(s?[t[0],t[1]].concat(t.slice(2)):[t[0]].concat(t.slice(1))).map((i,r)=>Hf(i,r,e,n))}function yT(t,e){return t.map((n,s)=>s==0?{}:dt({},e,n))}function Hf(t,e,n,s){return dt({},e==0?n:s,t)}function b0(t,e,n){return e==null?Ti:[e,n]}var _T=b0;function kT(t,e,n){return e==null?Ti:Ka(e,n,Zf,!0)}function w0(t,e,n,s){return e==null?Ti:Ja(e,n,t.scales[s].log,!1)}var xT=w0;function y0(t,e,n,s){return e==null?Ti:Yf(e,n,t.scales[s].log,!1)}var ST=y0;function ET(t,e,n,s,o){let i=Ut(dv(t),dv(e)),r=e-t,l=zn(o/s*r,n);do{let a=n[l],u=s*a/r;if(u>=o&&i+(a<5?js.get(a):0)<=17)return[a,u]}while(++l<n.length);return[0,0]}function Iv(t){let e,n;return t=t.replace(/(\d+)px/,(s,o)=>(e=vt((n=+o)*Re))+"px"),[t,e,n]}function CT(t){t.show&&[t.font,t.labelFont].forEach(e=>{let n=Ue(e[2]*Re,1);e[0]=e[0].replace(/[0-9.]+px/,n+"px"),e[1]=n})}function ct(t,e,n){let s={mode:Te(t.mode,1)},o=s.mode;function i(p,m,$,b){let w=m.valToPct(p);return b+$*(m.dir==-1?1-w:w)}function r(p,m,$,b){let w=m.valToPct(p);return b+$*(m.dir==-1?w:1-w)}function l(p,m,$,b){return m.ori==0?i(p,m,$,b):r(p,m,$,b)}s.valToPosH=i,s.valToPosV=r;let a=!1;s.status=0;let u=s.root=En(PE);if(t.id!=null&&(u.id=t.id),on(u,t.class),t.title){let p=En(NE,u);p.textContent=t.title}let f=Fn("canvas"),d=s.ctx=f.getContext("2d"),h=En(FE,u);_o("click",h,p=>{p.target===v&&(Ge!=Ho||Qe!=Go)&&Tt.click(s,p)},!0);let g=s.under=En(zE,h);h.appendChild(f);let v=s.over=En(WE,h);t=Oi(t);let _=+Te(t.pxAlign,1),k=Mv(_);(t.plugins||[]).forEach(p=>{p.opts&&(t=p.opts(s,t)||t)});let T=t.ms||.001,y=s.series=o==1?Pv(t.series||[],xv,Ov,!1):yT(t.series||[null],Tv),E=s.axes=Pv(t.axes||[],kv,Ev,!0),A=s.scales={},U=s.bands=t.bands||[];U.forEach(p=>{p.fill=ye(p.fill||null),p.dir=Te(p.dir,-1)});let F=o==2?y[1].facets[0].scale:y[0].scale,G={axes:Jy,series:Gy},K=(t.drawOrder||["axes","series"]).map(p=>G[p]);function se(p){let m=p.distr==3?$=>ws($>0?$:p.clamp(s,$,p.min,p.max,p.key)):p.distr==4?$=>Rf($,p.asinh):p.distr==100?$=>p.fwd($):$=>$;return $=>{let b=m($),{_min:w,_max:S}=p,R=S-w;return(b-w)/R}}function J(p){let m=A[p];if(m==null){let $=(t.scales||qr)[p]||qr;if($.from!=null){J($.from);let b=dt({},A[$.from],$,{key:p});b.valToPct=se(b),A[p]=b}else{m=A[p]=dt({},p==F?c0:cT,$),m.key=p;let b=m.time,w=m.range,S=Us(w);if((p!=F||o==2&&!b)&&(S&&(w[0]==null||w[1]==null)&&(w={min:w[0]==null?cv:{mode:1,hard:w[0],soft:w[0]},max:w[1]==null?cv:{mode:1,hard:w[1],soft:w[1]}},S=!1),!S&&Xa(w))){let R=w;w=(D,z,j)=>z==null?Ti:Ka(z,j,R)}m.range=ye(w||(b?_T:p==F?m.distr==3?xT:m.distr==4?ST:b0:m.distr==3?w0:m.distr==4?y0:kT)),m.auto=ye(S?!1:m.auto),m.clamp=ye(m.clamp||aT),m._min=m._max=null,m.valToPct=se(m)}}}J("x"),J("y"),o==1&&y.forEach(p=>{J(p.scale)}),E.forEach(p=>{J(p.scale)});for(let p in t.scales)J(p);let N=A[F],Q=N.distr,B,Z;N.ori==0?(on(u,IE),B=i,Z=r):(on(u,DE),B=r,Z=i);let X={};for(let p in A){let m=A[p];(m.min!=null||m.max!=null)&&(X[p]={min:m.min,max:m.max},m.min=m.max=null)}let ce=t.tzDate||(p=>new Date(vt(p/T))),ne=t.fmtDate||Xf,jt=T==1?IC(ce):FC(ce),Ze=wv(ce,bv(T==1?PC:NC,ne)),Ee=_v(ce,yv(WC,ne)),De=[],he=s.legend=dt({},UC,t.legend),ee=s.cursor=dt({},YC,{drag:{y:o==2}},t.cursor),pt=he.show,It=ee.show,Je=he.markers;he.idxs=De,Je.width=ye(Je.width),Je.dash=ye(Je.dash),Je.stroke=ye(Je.stroke),Je.fill=ye(Je.fill);let Le,Tn,Zt,tt=[],jn=[],rs,un=!1,Cs={};if(he.live){let p=y[1]?y[1].values:null;un=p!=null,rs=un?p(s,1,0):{_:0};for(let m in rs)Cs[m]=Vf}if(pt)if(Le=Fn("table",GE,u),Zt=Fn("tbody",null,Le),he.mount(s,Le),un){Tn=Fn("thead",null,Le,Zt);let p=Fn("tr",null,Tn);Fn("th",null,p);for(var Mo in rs)Fn("th",Z$,p).textContent=Mo}else on(Le,KE),he.live&&on(Le,VE);let Ro={show:!0},Vi={show:!1};function ul(p,m){if(m==0&&(un||!he.live||o==2))return Ti;let $=[],b=Fn("tr",YE,Zt,Zt.childNodes[m]);on(b,p.class),p.show||on(b,yo);let w=Fn("th",null,b);if(Je.show){let D=En(ZE,w);if(m>0){let z=Je.width(s,m);z&&(D.style.border=z+"px "+Je.dash(s,m)+" "+Je.stroke(s,m)),D.style.background=Je.fill(s,m)}}let S=En(Z$,w);p.label instanceof HTMLElement?S.appendChild(p.label):S.textContent=p.label,m>0&&(Je.show||(S.style.color=p.width>0?Je.stroke(s,m):Je.fill(s,m)),Dt("click",w,D=>{if(ee._lock)return;eo(D);let z=y.indexOf(p);if((D.ctrlKey||D.metaKey)!=he.isolate){let j=y.some((H,Y)=>Y>0&&Y!=z&&H.show);y.forEach((H,Y)=>{Y>0&&Vn(Y,j?Y==z?Ro:Vi:Ro,!0,ut.setSeries)})}else Vn(z,{show:!p.show},!0,ut.setSeries)},!1),Do&&Dt(ev,w,D=>{ee._lock||(eo(D),Vn(y.indexOf(p),Ko,!0,ut.setSeries))},!1));for(var R in rs){let D=Fn("td",JE,b);D.textContent="--",$.push(D)}return[b,$]}let Ys=new Map;function Dt(p,m,$,b=!0){let w=Ys.get(m)||{},S=ee.bind[p](s,m,$,b);S&&(_o(p,m,w[p]=S),Ys.set(m,w))}function Lo(p,m,$){let b=Ys.get(m)||{};for(let w in b)(p==null||w==p)&&(zf(w,m,b[w]),delete b[w]);p==null&&Ys.delete(m)}let ls=0,Zs=0,fe=0,V=0,He=0,ht=0,Po=He,Js=ht,Hn=fe,Qs=V,Jt=0,fn=0,Ht=0,On=0;s.bbox={};let Nc=!1,fl=!1,Io=!1,Xs=!1,dl=!1,dn=!1;function Fc(p,m,$){($||p!=s.width||m!=s.height)&&Xd(p,m),Bo(!1),Io=!0,fl=!0,qo()}function Xd(p,m){s.width=ls=fe=p,s.height=Zs=V=m,He=ht=0,zy(),Wy();let $=s.bbox;Jt=$.left=bo(He*Re,.5),fn=$.top=bo(ht*Re,.5),Ht=$.width=bo(fe*Re,.5),On=$.height=bo(V*Re,.5)}let Dy=3;function Ny(){let p=!1,m=0;for(;!p;){m++;let $=Yy(m),b=Zy(m);p=m==Dy||$&&b,p||(Xd(s.width,s.height),fl=!0)}}function Fy({width:p,height:m}){Fc(p,m)}s.setSize=Fy;function zy(){let p=!1,m=!1,$=!1,b=!1;E.forEach((w,S)=>{if(w.show&&w._show){let{side:R,_size:D}=w,z=R%2,j=w.label!=null?w.labelSize:0,H=D+j;H>0&&(z?(fe-=H,R==3?(He+=H,b=!0):$=!0):(V-=H,R==0?(ht+=H,p=!0):m=!0))}}),to[0]=p,to[1]=$,to[2]=m,to[3]=b,fe-=Ts[1]+Ts[3],He+=Ts[3],V-=Ts[2]+Ts[0],ht+=Ts[0]}function Wy(){let p=He+fe,m=ht+V,$=He,b=ht;function w(S,R){switch(S){case 1:return p+=R,p-R;case 2:return m+=R,m-R;case 3:return $-=R,$+R;case 0:return b-=R,b+R}}E.forEach((S,R)=>{if(S.show&&S._show){let D=S.side;S._pos=w(D,S._size),S.label!=null&&(S._lpos=w(D,S.labelSize))}})}if(ee.dataIdx==null){let p=ee.hover,m=p.skip=new Set(p.skip??[]);m.add(void 0);let $=p.prox=ye(p.prox),b=p.bias??=0;ee.dataIdx=(w,S,R,D)=>{if(S==0)return R;let z=R,j=$(w,S,R,D)??qe,H=j>=0&&j<qe,Y=N.ori==0?fe:V,ie=ee.left,Oe=e[0],Ce=e[S];if(m.has(Ce[R])){z=null;let $e=null,oe=null,te;if(b==0||b==-1)for(te=R;$e==null&&te-- >0;)m.has(Ce[te])||($e=te);if(b==0||b==1)for(te=R;oe==null&&te++<Ce.length;)m.has(Ce[te])||(oe=te);if($e!=null||oe!=null)if(H){let Ke=$e==null?-1/0:B(Oe[$e],N,Y,0),it=oe==null?1/0:B(Oe[oe],N,Y,0),Et=ie-Ke,Ne=it-ie;Et<=Ne?Et<=j&&(z=$e):Ne<=j&&(z=oe)}else z=oe==null?$e:$e==null?oe:R-$e<=oe-R?$e:oe}else H&&bt(ie-B(Oe[R],N,Y,0))>j&&(z=null);return z}}let eo=p=>{ee.event=p};ee.idxs=De,ee._lock=!1;let Mt=ee.points;Mt.show=ye(Mt.show),Mt.size=ye(Mt.size),Mt.stroke=ye(Mt.stroke),Mt.width=ye(Mt.width),Mt.fill=ye(Mt.fill);let Gn=s.focus=dt({},t.focus||{alpha:.3},ee.focus),Do=Gn.prox>=0,No=Do&&Mt.one,pn=[],Fo=[],zo=[];function ep(p,m){let $=Mt.show(s,m);if($ instanceof HTMLElement)return on($,HE),on($,p.class),ss($,-10,-10,fe,V),v.insertBefore($,pn[m]),$}function tp(p,m){if(o==1||m>0){let $=o==1&&A[p.scale].time,b=p.value;p.value=$?mv(b)?_v(ce,yv(b,ne)):b||Ee:b||iT,p.label=p.label||($?JC:ZC)}if(No||m>0){p.width=p.width==null?1:p.width,p.paths=p.paths||bT||cC,p.fillTo=ye(p.fillTo||uT),p.pxAlign=+Te(p.pxAlign,_),p.pxRound=Mv(p.pxAlign),p.stroke=ye(p.stroke||null),p.fill=ye(p.fill||null),p._stroke=p._fill=p._paths=p._focus=null;let $=rT(Ut(1,p.width),1),b=p.points=dt({},{size:$,width:Ut(1,$*.2),stroke:p.stroke,space:$*2,paths:wT,_stroke:null,_fill:null},p.points);b.show=ye(b.show),b.filter=ye(b.filter),b.fill=ye(b.fill),b.stroke=ye(b.stroke),b.paths=ye(b.paths),b.pxAlign=p.pxAlign}if(pt){let $=ul(p,m);tt.splice(m,0,$[0]),jn.splice(m,0,$[1]),he.values.push(null)}if(It){De.splice(m,0,null);let $=null;No?m==0&&($=ep(p,m)):m>0&&($=ep(p,m)),pn.splice(m,0,$),Fo.splice(m,0,0),zo.splice(m,0,0)}St("addSeries",m)}function By(p,m){m=m??y.length,p=o==1?Hf(p,m,xv,Ov):Hf(p,m,{},Tv),y.splice(m,0,p),tp(y[m],m)}s.addSeries=By;function qy(p){if(y.splice(p,1),pt){he.values.splice(p,1),jn.splice(p,1);let m=tt.splice(p,1)[0];Lo(null,m.firstChild),m.remove()}It&&(De.splice(p,1),pn.splice(p,1)[0].remove(),Fo.splice(p,1),zo.splice(p,1)),St("delSeries",p)}s.delSeries=qy;let to=[!1,!1,!1,!1];function Uy(p,m){if(p._show=p.show,p.show){let $=p.side%2,b=A[p.scale];b==null&&(p.scale=$?y[1].scale:F,b=A[p.scale]);let w=b.time;p.size=ye(p.size),p.space=ye(p.space),p.rotate=ye(p.rotate),Us(p.incrs)&&p.incrs.forEach(R=>{!js.has(R)&&js.set(R,jv(R))}),p.incrs=ye(p.incrs||(b.distr==2?MC:w?T==1?LC:DC:wo)),p.splits=ye(p.splits||(w&&b.distr==1?jt:b.distr==3?Bf:b.distr==4?eT:XC)),p.stroke=ye(p.stroke),p.grid.stroke=ye(p.grid.stroke),p.ticks.stroke=ye(p.ticks.stroke),p.border.stroke=ye(p.border.stroke);let S=p.values;p.values=Us(S)&&!Us(S[0])?ye(S):w?Us(S)?wv(ce,bv(S,ne)):mv(S)?zC(ce,S):S||Ze:S||QC,p.filter=ye(p.filter||(b.distr>=3&&b.log==10?sT:b.distr==3&&b.log==2?oT:qv)),p.font=Iv(p.font),p.labelFont=Iv(p.labelFont),p._size=p.size(s,null,m,0),p._space=p._rotate=p._incrs=p._found=p._splits=p._values=null,p._size>0&&(to[m]=!0,p._el=En(BE,h))}}function Ki(p,m,$,b){let[w,S,R,D]=$,z=m%2,j=0;return z==0&&(D||S)&&(j=m==0&&!w||m==2&&!R?vt(kv.size/3):0),z==1&&(w||R)&&(j=m==1&&!S||m==3&&!D?vt(Ev.size/2):0),j}let np=s.padding=(t.padding||[Ki,Ki,Ki,Ki]).map(p=>ye(Te(p,Ki))),Ts=s._padding=np.map((p,m)=>p(s,m,to,0)),Ct,yt=null,_t=null,pl=o==1?y[0].idxs:null,An=null,Yi=!1;function sp(p,m){if(e=p??[],s.data=s._data=e,o==2){Ct=0;for(let $=1;$<y.length;$++)Ct+=e[$][0].length}else{e.length==0&&(s.data=s._data=e=[[]]),An=e[0],Ct=An.length;let $=e;if(Q==2){$=e.slice();let b=$[0]=Array(Ct);for(let w=0;w<Ct;w++)b[w]=w}s._data=e=$}if(Bo(!0),St("setData"),Q==2&&(Io=!0),m!==!1){let $=N;$.auto(s,Yi)?zc():As(F,$.min,$.max),Xs=Xs||ee.left>=0,dn=!0,qo()}}s.setData=sp;function zc(){Yi=!0;let p,m;o==1&&(Ct>0?(yt=pl[0]=0,_t=pl[1]=Ct-1,p=e[0][yt],m=e[0][_t],Q==2?(p=yt,m=_t):p==m&&(Q==3?[p,m]=Ja(p,p,N.log,!1):Q==4?[p,m]=Yf(p,p,N.log,!1):N.time?m=p+vt(86400/T):[p,m]=Ka(p,m,Zf,!0))):(yt=pl[0]=p=null,_t=pl[1]=m=null)),As(F,p,m)}let hl,Wo,Wc,Bc,qc,Uc,jc,Hc,Gc,Gt;function op(p,m,$,b,w,S){p??=Q$,$??=Qf,b??="butt",w??=Q$,S??="round",p!=hl&&(d.strokeStyle=hl=p),w!=Wo&&(d.fillStyle=Wo=w),m!=Wc&&(d.lineWidth=Wc=m),S!=qc&&(d.lineJoin=qc=S),b!=Uc&&(d.lineCap=Uc=b),$!=Bc&&d.setLineDash(Bc=$)}function ip(p,m,$,b){m!=Wo&&(d.fillStyle=Wo=m),p!=jc&&(d.font=jc=p),$!=Hc&&(d.textAlign=Hc=$),b!=Gc&&(d.textBaseline=Gc=b)}function Vc(p,m,$,b,w=0){if(b.length>0&&p.auto(s,Yi)&&(m==null||m.min==null)){let S=Te(yt,0),R=Te(_t,b.length-1),D=$.min==null?sC(b,S,R,w,p.distr==3):[$.min,$.max];p.min=Wn(p.min,$.min=D[0]),p.max=Ut(p.max,$.max=D[1])}}let rp={min:null,max:null};function jy(){for(let b in A){let w=A[b];X[b]==null&&(w.min==null||X[F]!=null&&w.auto(s,Yi))&&(X[b]=rp)}for(let b in A){let w=A[b];X[b]==null&&w.from!=null&&X[w.from]!=null&&(X[b]=rp)}X[F]!=null&&Bo(!0);let p={};for(let b in X){let w=X[b];if(w!=null){let S=p[b]=Oi(A[b],dC);if(w.min!=null)dt(S,w);else if(b!=F||o==2)if(Ct==0&&S.from==null){let R=S.range(s,null,null,b);S.min=R[0],S.max=R[1]}else S.min=qe,S.max=-qe}}if(Ct>0){y.forEach((b,w)=>{if(o==1){let S=b.scale,R=X[S];if(R==null)return;let D=p[S];if(w==0){let z=D.range(s,D.min,D.max,S);D.min=z[0],D.max=z[1],yt=zn(D.min,e[0]),_t=zn(D.max,e[0]),_t-yt>1&&(e[0][yt]<D.min&&yt++,e[0][_t]>D.max&&_t--),b.min=An[yt],b.max=An[_t]}else b.show&&b.auto&&Vc(D,R,b,e[w],b.sorted);b.idxs[0]=yt,b.idxs[1]=_t}else if(w>0&&b.show&&b.auto){let[S,R]=b.facets,D=S.scale,z=R.scale,[j,H]=e[w],Y=p[D],ie=p[z];Y!=null&&Vc(Y,X[D],S,j,S.sorted),ie!=null&&Vc(ie,X[z],R,H,R.sorted),b.min=R.min,b.max=R.max}});for(let b in p){let w=p[b],S=X[b];if(w.from==null&&(S==null||S.min==null)){let R=w.range(s,w.min==qe?null:w.min,w.max==-qe?null:w.max,b);w.min=R[0],w.max=R[1]}}}for(let b in p){let w=p[b];if(w.from!=null){let S=p[w.from];if(S.min==null)w.min=w.max=null;else{let R=w.range(s,S.min,S.max,b);w.min=R[0],w.max=R[1]}}}let m={},$=!1;for(let b in p){let w=p[b],S=A[b];if(S.min!=w.min||S.max!=w.max){S.min=w.min,S.max=w.max;let R=S.distr;S._min=R==3?ws(S.min):R==4?Rf(S.min,S.asinh):R==100?S.fwd(S.min):S.min,S._max=R==3?ws(S.max):R==4?Rf(S.max,S.asinh):R==100?S.fwd(S.max):S.max,m[b]=$=!0}}if($){y.forEach((b,w)=>{o==2?w>0&&m.y&&(b._paths=null):m[b.scale]&&(b._paths=null)});for(let b in m)Io=!0,St("setScale",b);It&&ee.left>=0&&(Xs=dn=!0)}for(let b in X)X[b]=null}function Hy(p){let m=Wf(yt-1,0,Ct-1),$=Wf(_t+1,0,Ct-1);for(;p[m]==null&&m>0;)m--;for(;p[$]==null&&$<Ct-1;)$++;return[m,$]}function Gy(){if(Ct>0){let p=y.some(m=>m._focus)&&Gt!=Gn.alpha;p&&(d.globalAlpha=Gt=Gn.alpha),y.forEach((m,$)=>{if($>0&&m.show&&(lp($,!1),lp($,!0),m._paths==null)){let b=Gt;Gt!=m.alpha&&(d.globalAlpha=Gt=m.alpha);let w=o==2?[0,e[$][0].length-1]:Hy(e[$]);m._paths=m.paths(s,$,w[0],w[1]),Gt!=b&&(d.globalAlpha=Gt=b)}}),y.forEach((m,$)=>{if($>0&&m.show){let b=Gt;Gt!=m.alpha&&(d.globalAlpha=Gt=m.alpha),m._paths!=null&&ap($,!1);{let w=m._paths!=null?m._paths.gaps:null,S=m.points.show(s,$,yt,_t,w),R=m.points.filter(s,$,S,w);(S||R)&&(m.points._paths=m.points.paths(s,$,yt,_t,R),ap($,!0))}Gt!=b&&(d.globalAlpha=Gt=b),St("drawSeries",$)}}),p&&(d.globalAlpha=Gt=1)}}function lp(p,m){let $=m?y[p].points:y[p];$._stroke=$.stroke(s,p),$._fill=$.fill(s,p)}function ap(p,m){let $=m?y[p].points:y[p],{stroke:b,fill:w,clip:S,flags:R,_stroke:D=$._stroke,_fill:z=$._fill,_width:j=$.width}=$._paths;j=Ue(j*Re,3);let H=null,Y=j%2/2;m&&z==null&&(z=j>0?"#fff":D);let ie=$.pxAlign==1&&Y>0;if(ie&&d.translate(Y,Y),!m){let Oe=Jt-j/2,Ce=fn-j/2,$e=Ht+j,oe=On+j;H=new Path2D,H.rect(Oe,Ce,$e,oe)}m?Kc(D,j,$.dash,$.cap,z,b,w,R,S):Vy(p,D,j,$.dash,$.cap,z,b,w,R,H,S),ie&&d.translate(-Y,-Y)}function Vy(p,m,$,b,w,S,R,D,z,j,H){let Y=!1;z!=0&&U.forEach((ie,Oe)=>{if(ie.series[0]==p){let Ce=y[ie.series[1]],$e=e[ie.series[1]],oe=(Ce._paths||qr).band;Us(oe)&&(oe=ie.dir==1?oe[0]:oe[1]);let te,Ke=null;Ce.show&&oe&&iC($e,yt,_t)?(Ke=ie.fill(s,Oe)||S,te=Ce._paths.clip):oe=null,Kc(m,$,b,w,Ke,R,D,z,j,H,te,oe),Y=!0}}),Y||Kc(m,$,b,w,S,R,D,z,j,H)}let cp=Ai|Uf;function Kc(p,m,$,b,w,S,R,D,z,j,H,Y){op(p,m,$,b,w),(z||j||Y)&&(d.save(),z&&d.clip(z),j&&d.clip(j)),Y?(D&cp)==cp?(d.clip(Y),H&&d.clip(H),gl(w,R),ml(p,S,m)):D&Uf?(gl(w,R),d.clip(Y),ml(p,S,m)):D&Ai&&(d.save(),d.clip(Y),H&&d.clip(H),gl(w,R),d.restore(),ml(p,S,m)):(gl(w,R),ml(p,S,m)),(z||j||Y)&&d.restore()}function ml(p,m,$){$>0&&(m instanceof Map?m.forEach((b,w)=>{d.strokeStyle=hl=w,d.stroke(b)}):m!=null&&p&&d.stroke(m))}function gl(p,m){m instanceof Map?m.forEach(($,b)=>{d.fillStyle=Wo=b,d.fill($)}):m!=null&&p&&d.fill(m)}function Ky(p,m,$,b){let w=E[p],S;if(b<=0)S=[0,0];else{let R=w._space=w.space(s,p,m,$,b),D=w._incrs=w.incrs(s,p,m,$,b,R);S=ET(m,$,D,b,R)}return w._found=S}function Yc(p,m,$,b,w,S,R,D,z,j){let H=R%2/2;_==1&&d.translate(H,H),op(D,R,z,j,D),d.beginPath();let Y,ie,Oe,Ce,$e=w+(b==0||b==3?-S:S);$==0?(ie=w,Ce=$e):(Y=w,Oe=$e);for(let oe=0;oe<p.length;oe++)m[oe]!=null&&($==0?Y=Oe=p[oe]:ie=Ce=p[oe],d.moveTo(Y,ie),d.lineTo(Oe,Ce));d.stroke(),_==1&&d.translate(-H,-H)}function Yy(p){let m=!0;return E.forEach(($,b)=>{if(!$.show)return;let w=A[$.scale];if(w.min==null){$._show&&(m=!1,$._show=!1,Bo(!1));return}else $._show||(m=!1,$._show=!0,Bo(!1));let S=$.side,R=S%2,{min:D,max:z}=w,[j,H]=Ky(b,D,z,R==0?fe:V);if(H==0)return;let Y=w.distr==2,ie=$._splits=$.splits(s,b,D,z,j,H,Y),Oe=w.distr==2?ie.map(te=>An[te]):ie,Ce=w.distr==2?An[ie[1]]-An[ie[0]]:j,$e=$._values=$.values(s,$.filter(s,Oe,b,H,Ce),b,H,Ce);$._rotate=S==2?$.rotate(s,$e,b,H):0;let oe=$._size;$._size=Cn($.size(s,$e,b,p)),oe!=null&&$._size!=oe&&(m=!1)}),m}function Zy(p){let m=!0;return np.forEach(($,b)=>{let w=$(s,b,to,p);w!=Ts[b]&&(m=!1),Ts[b]=w}),m}function Jy(){for(let p=0;p<E.length;p++){let m=E[p];if(!m.show||!m._show)continue;let $=m.side,b=$%2,w,S,R=m.stroke(s,p),D=$==0||$==3?-1:1,[z,j]=m._found;if(m.label!=null){let Ft=m.labelGap*D,en=vt((m._lpos+Ft)*Re);ip(m.labelFont[0],R,"center",$==2?"top":J$),d.save(),b==1?(w=S=0,d.translate(en,vt(fn+On/2)),d.rotate(($==3?-Ga:Ga)/2)):(w=vt(Jt+Ht/2),S=en);let oo=Wv(m.label)?m.label(s,p,z,j):m.label;d.fillText(oo,w,S),d.restore()}if(j==0)continue;let H=A[m.scale],Y=b==0?Ht:On,ie=b==0?Jt:fn,Oe=m._splits,Ce=H.distr==2?Oe.map(Ft=>An[Ft]):Oe,$e=H.distr==2?An[Oe[1]]-An[Oe[0]]:z,oe=m.ticks,te=m.border,Ke=oe.show?oe.size:0,it=vt(Ke*Re),Et=vt((m.alignTo==2?m._size-Ke-m.gap:m.gap)*Re),Ne=m._rotate*-Ga/180,rt=k(m._pos*Re),Qt=(it+Et)*D,Nt=rt+Qt;S=b==0?Nt:0,w=b==1?Nt:0;let hn=m.font[0],Mn=m.align==1?xi:m.align==2?Of:Ne>0?xi:Ne<0?Of:b==0?"center":$==3?Of:xi,Yn=Ne||b==1?"middle":$==2?"top":J$;ip(hn,R,Mn,Yn);let Xt=m.font[1]*m.lineGap,mn=Oe.map(Ft=>k(l(Ft,H,Y,ie))),Rn=m._values;for(let Ft=0;Ft<Rn.length;Ft++){let en=Rn[Ft];if(en!=null){b==0?w=mn[Ft]:S=mn[Ft],en=""+en;let oo=en.indexOf(`
`)==-1?[en]:en.split(/\n/gm);for(let zt=0;zt<oo.length;zt++){let Tp=oo[zt];Ne?(d.save(),d.translate(w,S+zt*Xt),d.rotate(Ne),d.fillText(Tp,0,0),d.restore()):d.fillText(Tp,w,S+zt*Xt)}}}oe.show&&Yc(mn,oe.filter(s,Ce,p,j,$e),b,$,rt,it,Ue(oe.width*Re,3),oe.stroke(s,p),oe.dash,oe.cap);let Zn=m.grid;Zn.show&&Yc(mn,Zn.filter(s,Ce,p,j,$e),b,b==0?2:1,b==0?fn:Jt,b==0?On:Ht,Ue(Zn.width*Re,3),Zn.stroke(s,p),Zn.dash,Zn.cap),te.show&&Yc([rt],[1],b==0?1:0,b==0?1:2,b==1?fn:Jt,b==1?On:Ht,Ue(te.width*Re,3),te.stroke(s,p),te.dash,te.cap)}St("drawAxes")}function Bo(p){y.forEach((m,$)=>{$>0&&(m._paths=null,p&&(o==1?(m.min=null,m.max=null):m.facets.forEach(b=>{b.min=null,b.max=null})))})}let $l=!1,Zc=!1,Zi=[];function Qy(){Zc=!1;for(let p=0;p<Zi.length;p++)St(...Zi[p]);Zi.length=0}function qo(){$l||(bC(up),$l=!0)}function Xy(p,m=!1){$l=!0,Zc=m,p(s),up(),m&&Zi.length>0&&queueMicrotask(Qy)}s.batch=Xy;function up(){if(Nc&&(jy(),Nc=!1),Io&&(Ny(),Io=!1),fl){if(Ye(g,xi,He),Ye(g,"top",ht),Ye(g,Fr,fe),Ye(g,zr,V),Ye(v,xi,He),Ye(v,"top",ht),Ye(v,Fr,fe),Ye(v,zr,V),Ye(h,Fr,ls),Ye(h,zr,Zs),f.width=vt(ls*Re),f.height=vt(Zs*Re),E.forEach(({_el:p,_show:m,_size:$,_pos:b,side:w})=>{if(p!=null)if(m){let S=w===3||w===0?$:0,R=w%2==1;Ye(p,R?"left":"top",b-S),Ye(p,R?"width":"height",$),Ye(p,R?"top":"left",R?ht:He),Ye(p,R?"height":"width",R?V:fe),Ff(p,yo)}else on(p,yo)}),hl=Wo=Wc=qc=Uc=jc=Hc=Gc=Bc=null,Gt=1,Xi(!0),He!=Po||ht!=Js||fe!=Hn||V!=Qs){Bo(!1);let p=fe/Hn,m=V/Qs;if(It&&!Xs&&ee.left>=0){ee.left*=p,ee.top*=m,Uo&&ss(Uo,vt(ee.left),0,fe,V),jo&&ss(jo,0,vt(ee.top),fe,V);for(let $=0;$<pn.length;$++){let b=pn[$];b!=null&&(Fo[$]*=p,zo[$]*=m,ss(b,Cn(Fo[$]),Cn(zo[$]),fe,V))}}if(Ve.show&&!dl&&Ve.left>=0&&Ve.width>0){Ve.left*=p,Ve.width*=p,Ve.top*=m,Ve.height*=m;for(let $ in nu)Ye(Vo,$,Ve[$])}Po=He,Js=ht,Hn=fe,Qs=V}St("setSize"),fl=!1}ls>0&&Zs>0&&(d.clearRect(0,0,f.width,f.height),St("drawClear"),K.forEach(p=>p()),St("draw")),Ve.show&&dl&&(vl(Ve),dl=!1),It&&Xs&&(so(null,!0,!1),Xs=!1),he.show&&he.live&&dn&&(eu(),dn=!1),a||(a=!0,s.status=1,St("ready")),Yi=!1,$l=!1}s.redraw=(p,m)=>{Io=m||!1,p!==!1?As(F,N.min,N.max):qo()};function Jc(p,m){let $=A[p];if($.from==null){if(Ct==0){let b=$.range(s,m.min,m.max,p);m.min=b[0],m.max=b[1]}if(m.min>m.max){let b=m.min;m.min=m.max,m.max=b}if(Ct>1&&m.min!=null&&m.max!=null&&m.max-m.min<1e-16)return;p==F&&$.distr==2&&Ct>0&&(m.min=zn(m.min,e[0]),m.max=zn(m.max,e[0]),m.min==m.max&&m.max++),X[p]=m,Nc=!0,qo()}}s.setScale=Jc;let Qc,Xc,Uo,jo,fp,dp,Ho,Go,pp,hp,Ge,Qe,Os=!1,Tt=ee.drag,kt=Tt.x,xt=Tt.y;It&&(ee.x&&(Qc=En(UE,v)),ee.y&&(Xc=En(jE,v)),N.ori==0?(Uo=Qc,jo=Xc):(Uo=Xc,jo=Qc),Ge=ee.left,Qe=ee.top);let Ve=s.select=dt({show:!0,over:!0,left:0,width:0,top:0,height:0},t.select),Vo=Ve.show?En(qE,Ve.over?v:g):null;function vl(p,m){if(Ve.show){for(let $ in p)Ve[$]=p[$],$ in nu&&Ye(Vo,$,p[$]);m!==!1&&St("setSelect")}}s.setSelect=vl;function e_(p){if(y[p].show)pt&&Ff(tt[p],yo);else if(pt&&on(tt[p],yo),It){let $=No?pn[0]:pn[p];$!=null&&ss($,-10,-10,fe,V)}}function As(p,m,$){Jc(p,{min:m,max:$})}function Vn(p,m,$,b){m.focus!=null&&i_(p),m.show!=null&&y.forEach((w,S)=>{S>0&&(p==S||p==null)&&(w.show=m.show,e_(S),o==2?(As(w.facets[0].scale,null,null),As(w.facets[1].scale,null,null)):As(w.scale,null,null),qo())}),$!==!1&&St("setSeries",p,m),b&&er("setSeries",s,p,m)}s.setSeries=Vn;function t_(p,m){dt(U[p],m)}function n_(p,m){p.fill=ye(p.fill||null),p.dir=Te(p.dir,-1),m=m??U.length,U.splice(m,0,p)}function s_(p){p==null?U.length=0:U.splice(p,1)}s.addBand=n_,s.setBand=t_,s.delBand=s_;function o_(p,m){y[p].alpha=m,It&&pn[p]!=null&&(pn[p].style.opacity=m),pt&&tt[p]&&(tt[p].style.opacity=m)}let as,Ms,no,Ko={focus:!0};function i_(p){if(p!=no){let m=p==null,$=Gn.alpha!=1;y.forEach((b,w)=>{if(o==1||w>0){let S=m||w==0||w==p;b._focus=m?null:S,$&&o_(w,S?1:Gn.alpha)}}),no=p,$&&qo()}}pt&&Do&&Dt(tv,Le,p=>{ee._lock||(eo(p),no!=null&&Vn(null,Ko,!0,ut.setSeries))});function Kn(p,m,$){let b=A[m];$&&(p=p/Re-(b.ori==1?ht:He));let w=fe;b.ori==1&&(w=V,p=w-p),b.dir==-1&&(p=w-p);let S=b._min,R=b._max,D=p/w,z=S+(R-S)*D,j=b.distr;return j==3?Ci(10,z):j==4?lC(z,b.asinh):j==100?b.bwd(z):z}function r_(p,m){let $=Kn(p,F,m);return zn($,e[0],yt,_t)}s.valToIdx=p=>zn(p,e[0]),s.posToIdx=r_,s.posToVal=Kn,s.valToPos=(p,m,$)=>A[m].ori==0?i(p,A[m],$?Ht:fe,$?Jt:0):r(p,A[m],$?On:V,$?fn:0),s.setCursor=(p,m,$)=>{Ge=p.left,Qe=p.top,so(null,m,$)};function mp(p,m){Ye(Vo,xi,Ve.left=p),Ye(Vo,Fr,Ve.width=m)}function gp(p,m){Ye(Vo,"top",Ve.top=p),Ye(Vo,zr,Ve.height=m)}let Ji=N.ori==0?mp:gp,Qi=N.ori==1?mp:gp;function l_(){if(pt&&he.live)for(let p=o==2?1:0;p<y.length;p++){if(p==0&&un)continue;let m=he.values[p],$=0;for(let b in m)jn[p][$++].firstChild.nodeValue=m[b]}}function eu(p,m){if(p!=null&&(p.idxs?p.idxs.forEach(($,b)=>{De[b]=$}):fC(p.idx)||De.fill(p.idx),he.idx=De[0]),pt&&he.live){for(let $=0;$<y.length;$++)($>0||o==1&&!un)&&a_($,De[$]);l_()}dn=!1,m!==!1&&St("setLegend")}s.setLegend=eu;function a_(p,m){let $=y[p],b=p==0&&Q==2?An:e[p],w;un?w=$.values(s,p,m)??Cs:(w=$.value(s,m==null?null:b[m],p,m),w=w==null?Cs:{_:w}),he.values[p]=w}function so(p,m,$){pp=Ge,hp=Qe,[Ge,Qe]=ee.move(s,Ge,Qe),ee.left=Ge,ee.top=Qe,It&&(Uo&&ss(Uo,vt(Ge),0,fe,V),jo&&ss(jo,0,vt(Qe),fe,V));let b,w=yt>_t;as=qe,Ms=null;let S=N.ori==0?fe:V,R=N.ori==1?fe:V;if(Ge<0||Ct==0||w){b=ee.idx=null;for(let D=0;D<y.length;D++){let z=pn[D];z!=null&&ss(z,-10,-10,fe,V)}Do&&Vn(null,Ko,!0,p==null&&ut.setSeries),he.live&&(De.fill(b),dn=!0)}else{let D,z,j;o==1&&(D=N.ori==0?Ge:Qe,z=Kn(D,F),b=ee.idx=zn(z,e[0],yt,_t),j=B(e[0][b],N,S,0));let H=-10,Y=-10,ie=0,Oe=0,Ce=!0,$e="",oe="";for(let te=o==2?1:0;te<y.length;te++){let Ke=y[te],it=De[te],Et=it==null?null:o==1?e[te][it]:e[te][1][it],Ne=ee.dataIdx(s,te,b,z),rt=Ne==null?null:o==1?e[te][Ne]:e[te][1][Ne];if(dn=dn||rt!=Et||Ne!=it,De[te]=Ne,te>0&&Ke.show){let Qt=Ne==null?-10:Ne==b?j:B(o==1?e[0][Ne]:e[te][0][Ne],N,S,0),Nt=rt==null?-10:Z(rt,o==1?A[Ke.scale]:A[Ke.facets[1].scale],R,0);if(Do&&rt!=null){let hn=N.ori==1?Ge:Qe,Mn=bt(Gn.dist(s,te,Ne,Nt,hn));if(Mn<as){let Yn=Gn.bias;if(Yn!=0){let Xt=Kn(hn,Ke.scale),mn=rt>=0?1:-1,Rn=Xt>=0?1:-1;Rn==mn&&(Rn==1?Yn==1?rt>=Xt:rt<=Xt:Yn==1?rt<=Xt:rt>=Xt)&&(as=Mn,Ms=te)}else as=Mn,Ms=te}}if(dn||No){let hn,Mn;N.ori==0?(hn=Qt,Mn=Nt):(hn=Nt,Mn=Qt);let Yn,Xt,mn,Rn,Zn,Ft,en=!0,oo=Mt.bbox;if(oo!=null){en=!1;let zt=oo(s,te);mn=zt.left,Rn=zt.top,Yn=zt.width,Xt=zt.height}else mn=hn,Rn=Mn,Yn=Xt=Mt.size(s,te);if(Ft=Mt.fill(s,te),Zn=Mt.stroke(s,te),No)te==Ms&&as<=Gn.prox&&(H=mn,Y=Rn,ie=Yn,Oe=Xt,Ce=en,$e=Ft,oe=Zn);else{let zt=pn[te];zt!=null&&(Fo[te]=mn,zo[te]=Rn,av(zt,Yn,Xt,en),rv(zt,Ft,Zn),ss(zt,Cn(mn),Cn(Rn),fe,V))}}}}if(No){let te=Gn.prox,Ke=no==null?as<=te:as>te||Ms!=no;if(dn||Ke){let it=pn[0];it!=null&&(Fo[0]=H,zo[0]=Y,av(it,ie,Oe,Ce),rv(it,$e,oe),ss(it,Cn(H),Cn(Y),fe,V))}}}if(Ve.show&&Os)if(p!=null){let[D,z]=ut.scales,[j,H]=ut.match,[Y,ie]=p.cursor.sync.scales,Oe=p.cursor.drag;if(kt=Oe._x,xt=Oe._y,kt||xt){let{left:Ce,top:$e,width:oe,height:te}=p.select,Ke=p.scales[Y].ori,it=p.posToVal,Et,Ne,rt,Qt,Nt,hn=D!=null&&j(D,Y),Mn=z!=null&&H(z,ie);hn&&kt?(Ke==0?(Et=Ce,Ne=oe):(Et=$e,Ne=te),rt=A[D],Qt=B(it(Et,Y),rt,S,0),Nt=B(it(Et+Ne,Y),rt,S,0),Ji(Wn(Qt,Nt),bt(Nt-Qt))):Ji(0,S),Mn&&xt?(Ke==1?(Et=Ce,Ne=oe):(Et=$e,Ne=te),rt=A[z],Qt=Z(it(Et,ie),rt,R,0),Nt=Z(it(Et+Ne,ie),rt,R,0),Qi(Wn(Qt,Nt),bt(Nt-Qt))):Qi(0,R)}else su()}else{let D=bt(pp-fp),z=bt(hp-dp);if(N.ori==1){let ie=D;D=z,z=ie}kt=Tt.x&&D>=Tt.dist,xt=Tt.y&&z>=Tt.dist;let j=Tt.uni;j!=null?kt&&xt&&(kt=D>=j,xt=z>=j,!kt&&!xt&&(z>D?xt=!0:kt=!0)):Tt.x&&Tt.y&&(kt||xt)&&(kt=xt=!0);let H,Y;kt&&(N.ori==0?(H=Ho,Y=Ge):(H=Go,Y=Qe),Ji(Wn(H,Y),bt(Y-H)),xt||Qi(0,R)),xt&&(N.ori==1?(H=Ho,Y=Ge):(H=Go,Y=Qe),Qi(Wn(H,Y),bt(Y-H)),kt||Ji(0,S)),!kt&&!xt&&(Ji(0,0),Qi(0,0))}if(Tt._x=kt,Tt._y=xt,p==null){if($){if(Cp!=null){let[D,z]=ut.scales;ut.values[0]=D!=null?Kn(N.ori==0?Ge:Qe,D):null,ut.values[1]=z!=null?Kn(N.ori==1?Ge:Qe,z):null}er(Af,s,Ge,Qe,fe,V,b)}if(Do){let D=$&&ut.setSeries,z=Gn.prox;no==null?as<=z&&Vn(Ms,Ko,!0,D):as>z?Vn(null,Ko,!0,D):Ms!=no&&Vn(Ms,Ko,!0,D)}}dn&&(he.idx=b,eu()),m!==!1&&St("setCursor")}let Rs=null;Object.defineProperty(s,"rect",{get(){return Rs==null&&Xi(!1),Rs}});function Xi(p=!1){p?Rs=null:(Rs=v.getBoundingClientRect(),St("syncRect",Rs))}function $p(p,m,$,b,w,S,R){ee._lock||Os&&p!=null&&p.movementX==0&&p.movementY==0||(tu(p,m,$,b,w,S,R,!1,p!=null),p!=null?so(null,!0,!0):so(m,!0,!1))}function tu(p,m,$,b,w,S,R,D,z){if(Rs==null&&Xi(!1),eo(p),p!=null)$=p.clientX-Rs.left,b=p.clientY-Rs.top;else{if($<0||b<0){Ge=-10,Qe=-10;return}let[j,H]=ut.scales,Y=m.cursor.sync,[ie,Oe]=Y.values,[Ce,$e]=Y.scales,[oe,te]=ut.match,Ke=m.axes[0].side%2==1,it=N.ori==0?fe:V,Et=N.ori==1?fe:V,Ne=Ke?S:w,rt=Ke?w:S,Qt=Ke?b:$,Nt=Ke?$:b;if(Ce!=null?$=oe(j,Ce)?l(ie,A[j],it,0):-10:$=it*(Qt/Ne),$e!=null?b=te(H,$e)?l(Oe,A[H],Et,0):-10:b=Et*(Nt/rt),N.ori==1){let hn=$;$=b,b=hn}}z&&(m==null||m.cursor.event.type==Af)&&(($<=1||$>=fe-1)&&($=bo($,fe)),(b<=1||b>=V-1)&&(b=bo(b,V))),D?(fp=$,dp=b,[Ho,Go]=ee.move(s,$,b)):(Ge=$,Qe=b)}let nu={width:0,height:0,left:0,top:0};function su(){vl(nu,!1)}let vp,bp,wp,yp;function _p(p,m,$,b,w,S,R){Os=!0,kt=xt=Tt._x=Tt._y=!1,tu(p,m,$,b,w,S,R,!0,!1),p!=null&&(Dt(Mf,Df,kp,!1),er(X$,s,Ho,Go,fe,V,null));let{left:D,top:z,width:j,height:H}=Ve;vp=D,bp=z,wp=j,yp=H}function kp(p,m,$,b,w,S,R){Os=Tt._x=Tt._y=!1,tu(p,m,$,b,w,S,R,!1,!0);let{left:D,top:z,width:j,height:H}=Ve,Y=j>0||H>0,ie=vp!=D||bp!=z||wp!=j||yp!=H;if(Y&&ie&&vl(Ve),Tt.setScale&&Y&&ie){let Oe=D,Ce=j,$e=z,oe=H;if(N.ori==1&&(Oe=z,Ce=H,$e=D,oe=j),kt&&As(F,Kn(Oe,F),Kn(Oe+Ce,F)),xt)for(let te in A){let Ke=A[te];te!=F&&Ke.from==null&&Ke.min!=qe&&As(te,Kn($e+oe,te),Kn($e,te))}su()}else ee.lock&&(ee._lock=!ee._lock,so(m,!0,p!=null));p!=null&&(Lo(Mf,Df),er(Mf,s,Ge,Qe,fe,V,null))}function c_(p,m,$,b,w,S,R){if(ee._lock)return;eo(p);let D=Os;if(Os){let z=!0,j=!0,H=10,Y,ie;N.ori==0?(Y=kt,ie=xt):(Y=xt,ie=kt),Y&&ie&&(z=Ge<=H||Ge>=fe-H,j=Qe<=H||Qe>=V-H),Y&&z&&(Ge=Ge<Ho?0:fe),ie&&j&&(Qe=Qe<Go?0:V),so(null,!0,!0),Os=!1}Ge=-10,Qe=-10,De.fill(null),so(null,!0,!0),D&&(Os=D)}function xp(p,m,$,b,w,S,R){ee._lock||(eo(p),zc(),su(),p!=null&&er(nv,s,Ge,Qe,fe,V,null))}function Sp(){E.forEach(CT),Fc(s.width,s.height,!0)}_o(Va,Ei,Sp);let Yo={};Yo.mousedown=_p,Yo.mousemove=$p,Yo.mouseup=kp,Yo.dblclick=xp,Yo.setSeries=(p,m,$,b)=>{let w=ut.match[2];$=w(s,m,$),$!=-1&&Vn($,b,!0,!1)},It&&(Dt(X$,v,_p),Dt(Af,v,$p),Dt(ev,v,p=>{eo(p),Xi(!1)}),Dt(tv,v,c_),Dt(nv,v,xp),jf.add(s),s.syncRect=Xi);let bl=s.hooks=t.hooks||{};function St(p,m,$){Zc?Zi.push([p,m,$]):p in bl&&bl[p].forEach(b=>{b.call(null,s,m,$)})}(t.plugins||[]).forEach(p=>{for(let m in p.hooks)bl[m]=(bl[m]||[]).concat(p.hooks[m])});let Ep=(p,m,$)=>$,ut=dt({key:null,setSeries:!1,filters:{pub:pv,sub:pv},scales:[F,y[1]?y[1].scale:null],match:[hv,hv,Ep],values:[null,null]},ee.sync);ut.match.length==2&&ut.match.push(Ep),ee.sync=ut;let Cp=ut.key,ou=u0(Cp);function er(p,m,$,b,w,S,R){ut.filters.pub(p,m,$,b,w,S,R)&&ou.pub(p,m,$,b,w,S,R)}ou.sub(s);function u_(p,m,$,b,w,S,R){ut.filters.sub(p,m,$,b,w,S,R)&&Yo[p](null,m,$,b,w,S,R)}s.pub=u_;function f_(){ou.unsub(s),jf.delete(s),Ys.clear(),zf(Va,Ei,Sp),u.remove(),Le?.remove(),St("destroy")}s.destroy=f_;function iu(){St("init",t,e),sp(e||t.data,!1),X[F]?Jc(F,X[F]):zc(),dl=Ve.show&&(Ve.width>0||Ve.height>0),Xs=dn=!0,Fc(t.width,t.height)}return y.forEach(tp),E.forEach(Uy),n?n instanceof HTMLElement?(n.appendChild(u),iu()):n(s,iu):iu(),s}ct.assign=dt;ct.fmtNum=Jf;ct.rangeNum=Ka;ct.rangeLog=Ja;ct.rangeAsinh=Yf;ct.orient=xo;ct.pxRatio=Re;ct.join=vC;ct.fmtDate=Xf,ct.tzDate=OC;ct.sync=u0;{ct.addGap=fT,ct.clipGaps=ec;let t=ct.paths={points:g0};t.linear=v0,t.stepped=hT,t.bars=mT,t.spline=$T}var _0=258,k0=86,x0=46,TT=18,OT=9,oc=.5,AT=[1,2,5,10,20,50,100,200,500,1e3,2e3,5e3,1e4,2e4,5e4],MT=["accent","bad","dim","line","running","surface","waiting","warn"],S0=()=>Object.fromEntries(MT.map(t=>[t,Sh(`--${t}`)])),E0=(t,e)=>t.replace(/^rgb\((.*)\)$/,`rgba($1, ${e})`),C0=()=>`12px ${getComputedStyle(document.body).fontFamily}`,ic=class{#e;#t;#n=[];#s=!0;#o=S0();constructor(e,{onHover:n,onPick:s}){let o=Math.max(200,e.clientWidth),i=a=>n(a.cursor.idx??null);this.#e=new ct(this.#r(o,i),this.#l(),e),this.#t=new ct(this.#a(o,i),[[],[]],e);let{over:r}=this.#e,l=0;r.addEventListener("mousedown",a=>l=a.clientX),r.addEventListener("click",a=>{let{idx:u}=this.#e.cursor;u!=null&&Math.abs(a.clientX-l)<4&&s(u)})}draw(e,n){let s=this.#i();this.#n=e,this.#s=n;let o=this.#l();this.#e.setData(o),this.#t.setData([o[0],e.map(RT)]),s&&this.#e.setScale("x",s),s&&this.#t.setScale("x",s)}resize(e){this.#e.setSize({width:e,height:_0}),this.#t.setSize({width:e,height:k0})}repaint(){this.#o=S0(),this.#e.redraw(!1,!0),this.#t.redraw(!1,!0)}pointAt(e){let n=this.#n[e];if(!n)return;let s=this.#e.valToPos(n.x,"x"),o=this.#e.valToPos(n.tokens,"y");this.#e.setCursor({left:s,top:o},!1,!1),this.#t.setCursor({left:s,top:0},!1,!1)}destroy(){this.#e.destroy(),this.#t.destroy()}#i(){if(this.#n.length===0)return null;let{min:e,max:n}=this.#e.scales.x,s={min:e+oc,max:n-oc};return s.min>this.#n[0].x||s.max<this.#n.at(-1).x?s:null}#l(){let e=n=>this.#n.map(s=>s[n]);return[e("x"),e("limit"),e("usable"),e("tokens")]}#r(e,n){let s=ct.paths.stepped({align:-1}),o=(i,r)=>({stroke:()=>this.#o[i],width:1.5,dash:r,paths:s,points:{show:!1}});return{...T0(e,_0),scales:{x:{time:!1,range:O0},y:{range:()=>[0,this.#u()]}},axes:[this.#c({label:"Step",size:26,incrs:AT}),this.#c({label:"Tokens",size:x0,values:(i,r)=>r.map(lt)})],series:[{},o("bad",[2,3]),o("warn",[7,4]),{stroke:()=>this.#o.accent,fill:()=>E0(this.#o.accent,.12),width:2,points:{show:i=>this.#n.length*OT<=i.width,size:5,filter:(i,r,l)=>l?this.#f():null}}],hooks:{draw:[i=>this.#d(i)],setCursor:[n]}}}#a(e,n){return{...T0(e,k0),scales:{x:{time:!1,range:O0},y:{range:[0,100]}},axes:[this.#c({show:!1}),this.#c({label:"Cache reuse",size:x0,splits:()=>[0,50,100],values:(s,o)=>o.map(i=>`${i}%`)})],series:[{},{stroke:()=>this.#o.running,fill:()=>E0(this.#o.running,.5),width:0,paths:ct.paths.bars({size:[.7,24]}),points:{show:!1}}],hooks:{setCursor:[n]}}}#c(e){return{stroke:()=>this.#o.dim,font:C0(),labelFont:C0(),labelSize:TT,grid:{stroke:()=>this.#o.line,width:1},ticks:{show:!1},gap:4,...e}}#f(){return this.#n.flatMap(({step:e},n)=>e?[n]:[])}#u(){let e=this.#n.reduce((n,{tokens:s})=>Math.max(n,s),1);return Math.max(e,this.#s?this.#n.at(-1)?.limit??0:0)*1.08}#d(e){let{ctx:n}=e;n.save();for(let s of this.#n)s.mark&&s.edge===0&&s.mark.after!==null&&LT(e,n,s.mark,this.#o);n.restore()}};function T0(t,e){return{width:t,height:e,padding:[8,8,4,0],legend:{show:!1},cursor:{sync:{key:"context",scales:["x",null]},y:!1,drag:{x:!0,y:!1},points:{size:7}}}}function O0(t,e,n){return e===null?[0,1]:[e-oc,n+oc]}function RT({step:t}){if(!t)return;let e=xn(t.usage);return e===null?null:e*100}function LT(t,e,{kind:n,item:s,x:o,before:i,after:r},l){let a=ct.pxRatio,u=t.valToPos(o,"x",!0),{left:f,width:d}=t.bbox;if(u<f||u>f+d)return;let h=t.valToPos(i,"y",!0),g=t.valToPos(r,"y",!0),v=4*a;e.strokeStyle=n==="round"?l.waiting:l.running,e.fillStyle=s.status==="reverted"||n==="prune"?l.surface:e.strokeStyle,e.lineWidth=1.5*a,e.setLineDash(s.status==="reverted"?[3*a,3*a]:[]),e.beginPath(),e.moveTo(u,h),e.lineTo(u,g),e.stroke(),e.setLineDash([]),e.beginPath(),n==="round"?PT(e,u,h,v):e.arc(u,h,v*.85,0,2*Math.PI),e.fill(),e.stroke(),e.beginPath(),e.moveTo(u-v*.8,g-v),e.lineTo(u,g),e.lineTo(u+v*.8,g-v),e.stroke()}function PT(t,e,n,s){t.moveTo(e,n-s),t.lineTo(e+s,n),t.lineTo(e,n+s),t.lineTo(e-s,n),t.closePath()}var jr=({cost_usd:t})=>t===null?"unknown":nt(t);function Hr({outputs_pruned:t,image_ids:e}){return[[t,"output"],[e?.length??0,"image"]].filter(([s])=>s>0).map(([s,o])=>`${x(s)} ${o}${s===1?"":"s"}`).join(", ")}var _s={overflow:"context exceeded the usable tokens",threshold:"context was nearly full",provider_overflow:"provider rejected the request as too large",manual:"requested manually"},Pi={prune:"clearing old outputs",summary:"summary by the model",fold:"folding without a model",shrink:"shrinking the tail"},rc={trigger:"context exceeded the trigger",run_end:"a run ended close to the trigger",model_change:"the model changed, so the cache was cold anyway"},A0={placeholder:"Cleared: the model sees a placeholder, which says how to see the output or the image again.",clip:"Only the beginning and the end are sent.",summary:"A summary, sent instead of earlier messages.",repair:"Repaired so that the provider accepts the request; the history is unchanged.",control:"Added by Palimpsest, not by the user."},M0={running:"running",completed:"good",failed:"bad",cancelled:"warn",reverted:"warn",discarded:""};function os({name:t,foldKey:e,history:n,children:s}){let o=n.isOpen(e);return c`<div class="cx-fold">
    <button class="plain" aria-expanded=${o} onClick=${()=>n.toggle(e)}>
      <span aria-hidden="true">${o?"▾":"▸"}</span> ${t}
    </button>
    ${o&&s}
  </div>`}var rd=100,IT=["Tokens","Usable","Limit","New input","Cache read","Cache write","Output","Reuse","Cost","Time","Compaction"];function R0({history:t}){return c`<${os} name="Show as table" foldKey="steps" history=${t}>
    <${DT} history=${t} />
  <//>`}function DT({history:t}){let e=t.attempts.value,n=we(rd),s=e.slice(-n.value).reverse(),o=e.length-s.length;return c`<div class="cx-scroll" tabindex="0" role="region" aria-label="Steps as a table">
      <table class="steps">
        <thead>
          <tr>
            <th scope="col">Step</th>
            ${IT.map(i=>c`<th key=${i} scope="col" class="number">${i}</th>`)}
            <th scope="col">Ended</th>
          </tr>
        </thead>
        <tbody>
          ${s.map(i=>c`<${NT} key=${i.message_id} row=${i} />`)}
        </tbody>
      </table>
    </div>
    ${o>0&&c`<button onClick=${()=>n.value+=rd*5}>Show ${x(Math.min(o,rd*5))} of
      ${" "}${x(o)} earlier</button>`}`}function NT({row:t}){let{step:e,attempt:n,context:s,usage:o,finish_reason:i,duration_ms:r,compaction_round:l}=t,a=[x(s.tokens),x(s.usable),x(s.limit),x(o.input_tokens),x(o.cache_read_tokens),x(o.cache_write_tokens),x(o.output_tokens),Fe(xn(o)),nt(o.cost_usd),_e(r),l?`after ${l}`:"–"];return c`<tr>
    <th scope="row">${x(e)}${n>1&&c`<span class="dim"> attempt ${n}</span>`}</th>
    ${a.map((u,f)=>c`<td key=${f} class="number">${u}</td>`)}
    <td>${i===null?"running":i.replace("_"," ")}</td>
  </tr>`}var FT=.2,zT={ArrowLeft:-1,ArrowRight:1,PageUp:-10,PageDown:10,Home:-1/0,End:1/0};function L0({history:t,onPick:e}){let n=t.points.value,s=we(null),o=we(null),i=P(null),r=n.reduce((d,{tokens:h})=>Math.max(d,h),0),l=o.value??r>=FT*(n.at(-1)?.limit??0),a=s.value!==null&&n[s.value]?s.value:n.length-1,u=d=>n[d]&&e(n[d]);function f(d){if(d.key==="Enter")return u(a);let h=zT[d.key];h===void 0||d.altKey||d.ctrlKey||d.metaKey||(d.preventDefault(),s.value=Math.max(0,Math.min(n.length-1,a+h)),i.current.pointAt(s.value))}return n.length===0?c`<p class="dim">No steps yet.</p>`:c`<figure class="chart">
    <div
      class="chart-box"
      tabindex="0"
      role="group"
      aria-label="Chart of context tokens over ${x(t.steps.value.length)} steps. Use the arrow keys to move
        between steps and Enter to open a step or a compaction."
      onKeyDown=${f}
    >
      <${WT} plot=${i} points=${n} whole=${l} chosen=${s} onPick=${u} />
    </div>
    <figcaption>
      <${BT} />
      <span class="dim cx-zoom">Click a point to open it, drag to zoom in, double-click to zoom out.</span>
      <label class="cx-check">
        <input type="checkbox" checked=${l} onChange=${d=>o.value=d.target.checked} />
        Show the full context window
      </label>
    </figcaption>
    <p class="chart-text numbers" aria-live=${s.value===null?"off":"polite"}>
      <${qT} point=${n[a]} isNewest=${s.value===null} />
    </p>
    <${R0} history=${t} />
  </figure>`}function WT({plot:t,points:e,whole:n,chosen:s,onPick:o}){let i=P(null),r=P(o);return r.current=o,O(()=>{let l=new ic(i.current,{onHover:u=>s.value=u,onPick:u=>r.current(u)});t.current=l;let a=new ResizeObserver(([{contentRect:u}])=>u.width>0&&l.resize(u.width));return a.observe(i.current),()=>{a.disconnect(),l.destroy()}},[]),O(()=>t.current.draw(e,n),[e,n]),ar(()=>{xh.value,t.current?.repaint()}),c`<div class="chart-canvas" ref=${i}></div>`}function BT(){return c`<ul class="cx-legend">
    <li><span class="cx-key cx-tokens"></span>context</li>
    <li><span class="cx-key cx-usable"></span>usable</li>
    <li><span class="cx-key cx-limit"></span>limit</li>
    <li><span class="cx-key cx-compaction">◆</span>compaction</li>
    <li><span class="cx-key cx-prune">○</span>outputs cleared</li>
    <li><span class="cx-key cx-reuse"></span>cache reuse (below)</li>
  </ul>`}function qT({point:t,isNewest:e}){if(t.mark)return c`<${UT} mark=${t.mark} />`;let{step:n,attempt:s,context:o,usage:i,duration_ms:r}=t.step;return c`<b>Step ${x(n)}</b>${e?" (newest)":""}${s>1?`, attempt ${s}`:""}:
    ${" "}${x(o.tokens)} of ${x(o.usable)} usable tokens (${o.source}).
    ${Dn(i)>0&&c` Read ${x(Dn(i))}, ${x(i.cache_read_tokens)} of them cached
      (${Fe(xn(i))} reuse); wrote ${x(i.output_tokens)}; cost ${jr(i)}${r===null?"":`; took ${_e(r)}`}.`}`}function UT({mark:{kind:t,item:e,before:n,after:s}}){let o=`${x(n)} → ${x(s)} tokens`,i=`${Fe(Bs(e))} less`;return t==="prune"?c`<b>${Hr(e)} cleared</b>:
      ${" "}${o}, ${i}; ${rc[e.reason]??e.reason}. No model call, $0.`:c`<b>Compaction ${e.round}</b>${e.status==="reverted"?" (reverted)":""}:
    ${" "}${o}, ${i};
    ${" "}${_s[e.reason]??e.reason}. Cost ${jr(e.usage)}:
    ${" "}${x(Dn(e.usage))} tokens read (${Fe(xn(e.usage))} from the cache),
    ${" "}${x(e.usage.output_tokens)} written.`}var lc=240;function ac({parts:t}){let e=t.map(jT).filter(Boolean).join(" · ");return L(e.slice(0,lc)).trim()||"(empty)"}function jT(t){let{type:e}=t;return e==="text"?t.text.slice(0,lc):e==="reasoning"?"(reasoning)":e==="tool_call"?`→ ${Bt(t.name)} ${P0(t).slice(0,lc)}`:e==="tool_result"?t.output.slice(0,lc)||"(no output)":e==="image"?`[${ha(t)}]`:""}function P0({arguments:t},e){return typeof t=="string"?t:JSON.stringify(t,null,e)}function Gr({sessionId:t,message:e}){return e.parts.length===0?c`<p class="dim">This message has no parts.</p>`:c`<div class="cx-parts">
    ${e.parts.map(n=>c`<${HT} key=${n.id} sessionId=${t} part=${n} />`)}
  </div>`}function HT({sessionId:t,part:e}){let{type:n}=e;return n==="text"?c`<${ft} label="Text" text=${ue(e.text)} />`:n==="reasoning"?c`<${ld} name="Reasoning" text=${e.text} />`:n==="tool_call"?c`<${ld} name=${GT(e)} text=${P0(e,2)} />`:n==="tool_result"?c`<${ld} name=${VT(e)} text=${e.output} />`:n==="image"?c`<${nf} sessionId=${t} part=${e} />`:c`<p class="dim">Compaction ${e.round} starts here.</p>`}var GT=({name:t})=>`Call to ${Bt(t)}`;function ld({name:t,text:e}){let n=L(t);return c`<div class="cx-part">
    <p class="dim">${n}</p>
    ${e&&c`<${ft} label=${n} text=${ue(e)} />`}
  </div>`}function VT({name:t,status:e,exit_code:n,bytes:s,duration_ms:o,original_tokens:i}){return[`Result of ${Bt(t)}: ${e}`,n!=null&&`exit code ${n}`,Se(s),_e(o),i!=null&&`originally ${x(i)} tokens`].filter(Boolean).join(", ")}function Ii({sessionId:t,callId:e,verb:n="Show original output"}){let s=we(null);return s.value===null?c`<${q} onClick=${async()=>s.value=await Y$(t,e)}>${n}<//>`:c`<${KT} sessionId=${t} callId=${e} output=${s.value} />`}function KT({sessionId:t,callId:e,output:{text:n,isWhole:s,size:o}}){let i=P(null);return pe(()=>{document.activeElement===document.body&&i.current.focus({preventScroll:!0})},[]),c`<div class="cx-original" ref=${i} tabindex="-1">
    <p class="dim">
      Original output, ${Se(o)}${s?"":` (first ${Se(Wa)} shown)`}
      ${" "}<a href=${I(t,"tool-calls",e,"output")} download>Download</a>
    </p>
    ${n?c`<${ft} label="Original output" text=${ue(n)} />`:c`<p class="dim">Empty.</p>`}
  </div>`}function Di({state:t,history:e,range:n,total:s,isKept:o=()=>!1}){let{first_message_id:i,last_message_id:r}=n,l=de(()=>new Ba(t,n,e.steps.peek()),[i,r]),a=we(null);async function u(){try{await l.more(),a.value=null}catch(d){a.value=d}}O(()=>{u()},[l]);let f=l.messages.value;if(a.value&&f.length===0)return c`<${ge} problem=${a.value} onRetry=${u} />`;if(f.length===0){let d=l.isWhole.value;return c`<p class="dim" aria-busy=${!d}>${d?"These messages were not found.":"Loading…"}</p>`}return c`<ol class="cx-rows">
      ${f.map(d=>c`<${YT} key=${d.id} id=${t.id} message=${d} kept=${o(d)} />`)}
    </ol>
    ${!l.isWhole.value&&c`<${q} onClick=${u}>Show more (${x(f.length)} of about ${x(s)} loaded)<//>`}`}function YT({id:t,message:e,kept:n}){let s=we(!1),{voided_at:o,is_summary:i}=e,r=[n&&"kept",o&&"discarded",i&&"earlier summary"].filter(Boolean);return c`<li class="cx-row">
    <button class="plain cx-row-head" aria-expanded=${s.value} onClick=${()=>s.value=!s.value}>
      <span class="cx-row-role">${e.role}</span>
      <span class="cx-row-text">${r.length>0&&c`<em>${r.join(", ")} </em>`}${ac(e)}</span>
      <span class="cx-row-tokens numbers">${x(e.tokens)}</span>
    </button>
    ${s.value&&c`<div class="cx-row-body">
      <${Gr} sessionId=${t} message=${e} />
      <${ad} id=${t} message=${e} />
    </div>`}
  </li>`}function ad({id:t,message:e}){return e.parts.filter(({type:s,truncated:o})=>s==="tool_result"&&o).map(({call_id:s})=>c`<${Ii} key=${s} sessionId=${t} callId=${s}
      verb="Show full output" />`)}var ZT=["reactive","threshold","handoff"];function I0({state:t,history:e}){let n=e.isOpen("compact");return c`<div class="cx-fold">
    <button aria-expanded=${n} onClick=${()=>e.toggle("compact")}>Compact now…</button>
    <div hidden=${!n}><${JT} state=${t} history=${e} /></div>
  </div>`}function JT({state:t,history:e}){let n=we(""),s=we(""),o=we(null),i=t.session.value?.compaction.policy,r=()=>({...n.value&&{policy:n.value},...s.value.trim()&&{instructions:s.value}}),l=I(t.id,"compactions"),a=async()=>{let d=e.version.value,h=r(),g=await Me(l,{...h,dry_run:!0});JSON.stringify(r())===JSON.stringify(h)&&(o.value={version:d,found:g})},u=(d,h)=>{d.value=h,o.value=null},f=async()=>{let d=await Me(l,r());o.value=null;let h=t.session.value?.status==="idle"?"":"; it will run before the next step";ve(`Compaction ${d.round} requested${h}.`)};return c`<form class="compact-form" onSubmit=${d=>d.preventDefault()}>
    <div class="field">
      <label for="compact-policy">Policy</label>
      <select id="compact-policy" value=${n.value} onChange=${d=>u(n,d.target.value)}>
        <option value="">session default (${i})</option>
        ${ZT.map(d=>c`<option key=${d} value=${d}>${d}</option>`)}
      </select>
    </div>
    <div class="field">
      <label for="compact-instructions">What the summary should keep (optional)</label>
      <textarea
        id="compact-instructions"
        rows="2"
        maxlength="10000"
        placeholder="Keep the decisions on the API"
        value=${s.value}
        onInput=${d=>u(s,d.target.value)}
      ></textarea>
    </div>
    <div class="cx-buttons">
      <${q} onClick=${a}>Preview<//>
      <${q} kind="primary" onClick=${f}>Compact<//>
    </div>
    ${o.value&&c`<${QT} ...${o.value} state=${t} history=${e} />`}
  </form>`}function QT({found:t,version:e,state:n,history:s}){let{messages_compacted:o,outputs_pruned:i,call_ids:r,kept_message_ids:l}=t,a=t.tokens_after<t.trigger;return c`<section class="cx-preview" aria-label="Compaction preview" aria-live="polite">
    <h3>Preview (${t.policy})</h3>
    ${e!==s.version.value&&c`<p class="cx-bad-text">The context has changed since this preview.</p>`}
    <dl class="cx-facts numbers">
      <div><dt>Tokens</dt><dd>${x(t.tokens_before)} → about ${x(t.tokens_after)}
        ${" "}(${Fe(Bs(t))} less)</dd></div>
      <div><dt>Trigger</dt><dd>${x(t.trigger)}</dd></div>
      <div><dt>Usable</dt><dd>${x(t.usable)}</dd></div>
      <div><dt>Limit</dt><dd>${x(t.limit)}</dd></div>
      <div><dt>Messages compacted</dt><dd>${x(o)}</dd></div>
      <div><dt>Kept verbatim</dt><dd>${x(l.length)}</dd></div>
      <div><dt>Outputs cleared</dt><dd>${x(i)}</dd></div>
    </dl>
    ${o===0&&c`<p>There is nothing to compact: no model would be called, and the context would stay as it is.</p>`}
    ${o>0&&!a&&c`<p>This is not below the trigger, so the compaction may escalate.</p>`}
    ${o>0&&c`<${os} name="Messages that would be summarized" foldKey="preview-messages" history=${s}>
      <${Di} state=${n} history=${s} range=${t} total=${o}
        isKept=${({id:u})=>l.includes(u)} />
    <//>`}
    ${i>0&&c`<${os} name="Outputs that would be cleared" foldKey="preview-outputs" history=${s}>
      <ul class="cx-cleared">
        ${r.map(u=>c`<li key=${u}>
            <code class="dim">${L(u)}</code> <${Ii} sessionId=${n.id} callId=${u} />
          </li>`)}
      </ul>
    <//>`}
  </section>`}var XT={placeholder:"running",clip:"warn",summary:"good",repair:"bad",control:""};function D0({item:t,state:e,history:n}){let{message:s,tokens:o,reason:i}=t,r=`item-${s.id}`,l=fo(()=>n.isOpen(r)).value;return c`<div class="cx-item ${i??""}" role="listitem">
    <button class="plain cx-item-head" aria-expanded=${l} onClick=${()=>n.toggle(r)}>
      <span class="cx-row-role">${s.role}</span>
      <span class="cx-row-text">
        ${i&&c`<${xe} kind=${XT[i]??""}>${i}<//> `}${ac(s)}
      </span>
      <span class="cx-row-tokens numbers">${x(o)}</span>
      <span class="cx-item-was dim">${eO(t)}</span>
    </button>
    ${l&&c`<${tO} item=${t} state=${e} history=${n} />`}
  </div>`}function eO({message:t,reason:e}){let n=t.parts.reduce((s,o)=>s+(o.original_tokens??0),0);return e==="placeholder"?n?`${x(n)} tokens before`:"cleared":e==="clip"?"longer than sent":e==="summary"?"summarized messages":e==="repair"?"repaired for the request":e==="control"?"added by Palimpsest":"unchanged"}function tO({item:t,state:e,history:n}){return c`<div class="cx-sides">
    <section aria-label="Model's view">
      ${t.reason&&c`<p class="dim">${A0[t.reason]??t.reason}</p>`}
      <${Gr} sessionId=${e.id} message=${t.message} />
    </section>
    <section aria-label="Full history">
      ${t.reason==="summary"?c`<${oO} message=${t.message} state=${e} history=${n} />`:c`<${nO} item=${t} state=${e} />`}
    </section>
  </div>`}function nO({item:t,state:e}){let{message:n}=t,s=we(void 0),o=we(null);async function i(){try{s.value=await K$(e.id,n),o.value=null}catch(u){o.value=u}}if(O(()=>{i()},[n.id]),o.value)return c`<${ge} problem=${o.value} onRetry=${i} />`;if(s.value===void 0)return c`<p class="dim" aria-busy="true">Loading…</p>`;if(s.value===null)return c`<p>This message is not stored: it was created for the request.</p>`;let{seq:r,created_at:l,tokens:a}=s.value;return c`<p class="dim numbers">Stored at ${Rt(l)} with seq ${x(r)}, ${x(a)} tokens.</p>
    ${sO(s.value,n)?c`<p>Unchanged.</p>`:c`<${Gr} sessionId=${e.id} message=${s.value} />`}
    <${ad} id=${e.id} message=${s.value} />`}function sO(t,e){let n=({type:s,text:o,output:i,arguments:r,digest:l})=>[s,o,i,r,l];return JSON.stringify(t.parts.map(n))===JSON.stringify(e.parts.map(n))}function oO({message:t,state:e,history:n}){let s=n.rounds.value.findLast(i=>iO(i,t));if(!s)return c`<p>The compaction that made this summary is no longer known.</p>`;let o=()=>n.select(`round-${s.round}`);return c`<p>
      Made by compaction ${s.round}, which merged earlier summaries and ${x(s.messages_compacted)} new
      messages.
      ${" "}<button class="plain link" onClick=${o}>Show compaction</button>
    </p>
    <${Di} state=${e} history=${n} range=${s} total=${s.messages_compacted} />`}function iO({summary:t,created_at:e},n){return!t||Date.parse(e)>Date.parse(n.created_at)?!1:n.parts.some(({text:s})=>s?.includes(t))}var rO={builtin:"built-in",output:"output",client:"client"},lO={ready:"good",failed:"bad"},aO={unknown:"not connected yet"};function z0({tools:t,state:e,history:n}){let[s,o]=M({items:[],servers:[]}),[i,r]=M(null),l=()=>W(I(e.id,"tools")).then(o,r);O(()=>{l()},[t]);let a=new Map(s.items.map(f=>[f.name,N0(f)])),u=s.items.filter(({whole:f})=>!f);return c`${i&&c`<${ge} problem=${i} onRetry=${()=>(r(null),l())} />`}
    <ul class="cx-tools">
      ${t.map(f=>c`<${F0} key=${f.name} ...${{tool:f,source:a.get(f.name),history:n}} />`)}
    </ul>
    ${u.length>0&&c`<p class="dim">Not in the request: the model finds and calls these with mcp_search.</p>
      <ul class="cx-tools">
        ${u.map(f=>c`<${F0} key=${f.name} ...${{tool:f,source:N0(f),history:n}} />`)}
      </ul>`}
    <${cO} servers=${s.servers} />`}var N0=({source:t,server:e})=>t==="mcp"?`MCP server ${e}`:rO[t]??t;function F0({tool:{name:t,tokens:e,description:n,parameters:s},source:o,history:i}){let r=`${Bt(t)}, ${x(e)} tokens${o?`, ${L(o)}`:""}`;return c`<li>
    <${os} name=${r} foldKey="tool-${t}" history=${i}>
      <p>${ue(n)}</p>
      ${s&&c`<${ft} label="Parameters of ${t}" text=${ue(JSON.stringify(s,null,2))} />`}
    <//>
  </li>`}function cO({servers:t}){return t.length===0?null:c`<h3>MCP servers</h3>
    <ul class="cx-servers">
      ${t.map(e=>c`<${uO} key=${e.name} server=${e} />`)}
    </ul>`}function uO({server:{name:t,url:e,command:n,status:s,tools:o,left_out:i,code:r,detail:l}}){let a=Object.entries(i??{});return c`<li>
    <strong>${L(t)}</strong>${" "}
    <${xe} kind=${lO[s]??""}>${aO[s]??s}<//>${" "}
    <code class="dim">${L(e??n??"")}</code>
    ${s==="ready"&&` ${x(o)} ${o===1?"tool":"tools"}`}
    ${r&&c` <code>${L(r)}</code> ${L(l??"")}`}
    ${a.length>0&&c`<ul>
      ${a.map(([u,f])=>c`<li key=${u}><code>${L(u)}</code> left out: ${L(f)}</li>`)}
    </ul>`}
  </li>`}var cd=50,fO=1500,dO=new Set(["placeholder","clip","summary"]);function W0({state:t,history:e}){let n=qa(t),s=P(null),o=we(!1);pO(s,o);let i=_a(()=>n.load());ar(()=>{e.version.value,!(!o.value||n.step.peek()!==null&&n.data.peek())&&i(n.data.peek()?fO:0)});let{value:r}=n.data;return c`<div class="cx-seen" ref=${s}>
    <${hO} seen=${n} history=${e} />
    ${n.problem.value&&c`<${ge} problem=${n.problem.value} onRetry=${()=>n.load()} />`}
    ${!r&&!n.problem.value&&c`<p class="dim" aria-busy="true">Loading…</p>`}
    ${r&&c`<${mO} data=${r} state=${t} history=${e} />`}
  </div>`}function pO(t,e){O(()=>{let n=new IntersectionObserver(([s])=>e.value=s.isIntersecting,{rootMargin:"300px"});return n.observe(t.current),()=>n.disconnect()},[])}function hO({seen:t,history:e}){let{value:n}=t.step,s=e.steps.value.at(-1)?.step??0,o=l=>t.choose(Math.max(1,Math.min(s,l))),i=we(null),r=l=>{let a=Math.round(Number(l.target.value));i.value=null,a>=1&&o(a)};return c`<div class="cx-chooser" role="group" aria-label="Request to show">
    <button aria-pressed=${n===null} onClick=${()=>t.choose(null)}>Next step</button>
    <label>
      Step
      <input
        type="number"
        min="1"
        max=${s}
        placeholder=${s?`1–${s}`:""}
        disabled=${s===0}
        value=${i.value??n??""}
        onInput=${l=>i.value=l.target.value}
        onChange=${r}
      />
    </label>
    <button
      aria-label="Earlier step"
      disabled=${s===0||n===1}
      onClick=${()=>o((n??s+1)-1)}
    >
      ‹
    </button>
    <button
      aria-label="Later step"
      disabled=${n===null}
      onClick=${()=>n>=s?t.choose(null):o(n+1)}
    >
      ›
    </button>
    <span class="dim" role="status">${t.loading.value?"Loading…":""}</span>
  </div>`}function mO({data:t,state:e,history:n}){let{system:s,tools:o,messages:i}=t,r=i.filter(({reason:l})=>dO.has(l)).length;return c`<p class="numbers">
      ${t.step===null?"The next step would send":`Step ${x(t.step)} sent`} ${x(i.length)}
      ${" "}${i.length===1?"message":"messages"}
      ${r?`, ${x(r)} shortened`:""}, to ${L(t.model)}.
      ${" "}${x(t.tokens)} of ${x(t.usable)} usable tokens (${t.source}${t.step===null?"":" at the end of the step"}), generation ${x(t.generation)}.
    </p>
    <${gO} data=${t} />
    <${os} name="System prompt, ${x(s.tokens)} tokens" foldKey="system" history=${n}>
      <${$O} sections=${s.sections??[]} />
      <${ft} label="System prompt" text=${ue(s.text)} />
    <//>
    <${os} name="${x(o.length)} tools, ${x(B0(o))} tokens" foldKey="tools" history=${n}>
      <${z0} tools=${o} state=${e} history=${n} />
    <//>
    ${i.length>0&&c`<div class="cx-item-heads dim" aria-hidden="true">
        <span>Model's view</span><span>Full history</span>
      </div>
      <${vO} messages=${i} state=${e} history=${n} />`}`}var B0=t=>t.reduce((e,{tokens:n})=>e+n,0);function gO({data:t}){let e=V$(t).filter(({tokens:s})=>s>0),n=Math.max(1,B0(e));return c`<div class="cx-make-up">
    <div class="cx-make-up-bar" aria-hidden="true">
      ${e.map(({name:s,tokens:o})=>c`<span
          key=${s}
          class="cx-of-${s.toLowerCase()}"
          style=${{flexGrow:o}}
          title="${s}: ${x(o)}"
        ></span>`)}
    </div>
    <ul class="cx-legend numbers" aria-label="Estimated tokens by kind">
      ${e.map(({name:s,tokens:o,count:i})=>c`<li key=${s}>
          <span class="cx-key cx-of-${s.toLowerCase()}"></span>${s}${i>1?` (${x(i)})`:""}:
          ${" "}${lt(o)}, ${Fe(o/n)}
        </li>`)}
    </ul>
  </div>`}function $O({sections:t}){return t.length===0?null:c`<ul class="cx-sections numbers" aria-label="Parts of the system prompt">
    ${t.map(({source:e,tokens:n},s)=>c`<li key=${s}>
        <bdi>${L(e)}</bdi> <span class="dim">${x(n)} tokens</span>
      </li>`)}
  </ul>`}function vO({messages:t,state:e,history:n}){let s=we(1),o=P(new WeakMap),i=Math.ceil(t.length/cd);O(()=>{if(s.value>=i)return;let l=requestAnimationFrame(()=>s.value+=1);return()=>cancelAnimationFrame(l)},[s.value,i]);let r=l=>{let a=o.current;return a.has(l)||a.set(l,c`<${D0} key=${l.message.id} item=${l} state=${e} history=${n} />`),a.get(l)};return c`<div class="cx-items" role="list" aria-busy=${s.value<i}>
    ${Array.from({length:Math.min(s.value,i)},(l,a)=>{let u=t.slice(a*cd,(a+1)*cd);return c`<div key=${a} class="cx-slice" role="presentation">${u.map(r)}</div>`})}
  </div>`}function pd(){return{async:!1,breaks:!1,extensions:null,gfm:!0,hooks:null,pedantic:!1,renderer:null,silent:!1,tokenizer:null,walkTokens:null}}var Oo=pd();function Q0(t){Oo=t}var Eo={exec:()=>null};function So(t){let e=[];return n=>{let s=Math.max(0,Math.min(3,n-1)),o=e[s];return o||(o=t(s),e[s]=o),o}}function ae(t,e=""){let n=typeof t=="string"?t:t.source,s={replace:(o,i)=>{let r=typeof i=="string"?i:i.source;return r=r.replace(wt.caret,"$1"),n=n.replace(o,r),s},getRegex:()=>new RegExp(n,e)};return s}var X0=((t="")=>{try{return!!new RegExp("(?<=1)(?<!1)"+t)}catch{return!1}})(),wt={codeRemoveIndent:/^(?: {0,3}\t| {1,4})/gm,listInterruptsParagraph:/^ {0,3}(?:[*+-]|1[.)])[ \t]+[^ \t\n]/,outputLinkReplace:/\\([\[\]])/g,indentCodeCompensation:/^(\s+)(?:```)/,beginningSpace:/^\s+/,endingHash:/#$/,startingSpaceChar:/^ /,endingSpaceChar:/ $/,endingSpaceTabChar:/[ \t]$/,nonSpaceChar:/[^ ]/,newLineCharGlobal:/\n/g,tabCharGlobal:/\t/g,leadingSpaceTab:/^[ \t]+/,multipleSpaceGlobal:/\s+/g,blankLine:/^[ \t]*$/,doubleBlankLine:/\n[ \t]*\n[ \t]*$/,blockquoteStart:/^ {0,3}>/,blockquoteSetextReplace:/\n {0,3}((?:=+|-+)[ \t]*)(?=\n|$)/g,blockquoteSetextReplace2:/^ {0,3}>[ \t]?/gm,blockquoteMarkerWhitespace:/^( {0,3}>)(\t[ \t]*)/gm,nestedBlockMarker:/^ {0,3}(?:(?:[*+-]|\d{1,9}[.)])(?: |$)|> ?)/,listReplaceNesting:/^ {1,4}(?=( {4})*[^ ])/g,listIsTask:/^\[[ xX]\][ \t]+\S/,listReplaceTask:/^\[[ xX]\][ \t]+/,listTaskCheckbox:/\[[ xX]\]/,anyLine:/\n.*\n/,hrefBrackets:/^<(.*)>$/,tableDelimiter:/[:|]/,tableAlignChars:/^\||\| *$/g,tableRowBlankLine:/\n[ \t]*$/,tableAlignRight:/^ *-+: *$/,tableAlignCenter:/^ *:-+: *$/,tableAlignLeft:/^ *:-+ *$/,startATag:/^<a /i,endATag:/^<\/a>/i,startPreScriptTag:/^<(pre|code|kbd|script)(\s|>)/i,endPreScriptTag:/^<\/(pre|code|kbd|script)(\s|>)/i,startAngleBracket:/^</,endAngleBracket:/>$/,pedanticHrefTitle:/^([^'"]*[^\s])\s+(['"])(.*)\2/,unicodeAlphaNumeric:/[\p{L}\p{N}]/u,numericCharacterReference:/&#(?:(\d{1,7})|[Xx]([A-Fa-f0-9]{1,6}));/,numericCharacterReferenceOrAmpersand:/&#(?:(\d{1,7})|[Xx]([A-Fa-f0-9]{1,6}));|&(?!(#\d{1,7}|#[Xx][a-fA-F0-9]{1,6}|\w+);)/g,escapeTest:/[&<>"']/,escapeReplace:/[&<>"']/g,escapeTestNoEncode:/[<>"']|&(?!(#\d{1,7}|#[Xx][a-fA-F0-9]{1,6}|\w+);)/,escapeReplaceNoEncode:/[<>"']|&(?!(#\d{1,7}|#[Xx][a-fA-F0-9]{1,6}|\w+);)/g,caret:/(^|[^\[])\^/g,percentDecode:/%25/g,findPipe:/\|/g,splitPipe:/ \|/,slashPipe:/\\\|/g,carriageReturn:/\r\n|\r/g,spaceLine:/^ +$/gm,notSpaceStart:/^\S*/,endingNewline:/\n$/,listItemRegex:t=>new RegExp(`^( {0,3}${t})((?:[	 ][^\\n]*)?(?:\\n|$))`),nextBulletRegex:So(t=>new RegExp(`^ {0,${t}}(?:[*+-]|\\d{1,9}[.)])((?:[ 	][^\\n]*)?(?:\\n|$))`)),hrRegex:So(t=>new RegExp(`^ {0,${t}}((?:-[ 	]*){3,}|(?:_[ 	]*){3,}|(?:\\*[ 	]*){3,})(?:\\n+|$)`)),fencesBeginRegex:So(t=>new RegExp(`^ {0,${t}}(?:\`\`\`|~~~)`)),headingBeginRegex:So(t=>new RegExp(`^ {0,${t}}#{1,6}(?:\\s|$)`)),pedanticHeadingBeginRegex:So(t=>new RegExp(`^ {0,${t}}#`)),htmlBeginRegex:So(t=>new RegExp(`^ {0,${t}}(?:</?(?:${md})(?:[ \\t]+|$|/?>)|<(?:(?:script|pre|style|textarea)(?:[\\s>]|$)|!--)|<\\?|<![A-Za-z]|<!\\[CDATA\\[)`,"i")),blockquoteBeginRegex:So(t=>new RegExp(`^ {0,${t}}>`)),nestedContainerMarkers:/^(?: {0,3}(?:(?:[*+-]|\d{1,9}[.)])[ \t]+|>[ \t]?))+/},bO=/^(?:[ \t]*(?:\n|$))+/,wO=/^((?: {4}| {0,3}\t)[^\n]+(?:\n(?:[ \t]*(?:\n|$))*)?)+/,yO=/^ {0,3}(`{3,}(?=[^`\n]*(?:\n|$))|~{3,})([^\n]*)(?:\n|$)(?:|([\s\S]*?)(?:\n|$))(?: {0,3}(?:(?=`)\1`*|(?=~)\1~*) *(?=\n|$)|$)/,Yr=/^ {0,3}((?:-[\t ]*){3,}|(?:_[ \t]*){3,}|(?:\*[ \t]*){3,})(?:\n+|$)/,_O=/^ {0,3}(#{1,6})(?=\s|$)(.*)(?:\n+|$)/,hd=/ {0,3}(?:[*+-]|\d{1,9}[.)])/,md="address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|menuitem|meta|nav|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul",Zr=ae(" {0,3}(?:</?(?:tag)(?:[ \\t]+|\\n|/?>)|<(?:(?:script|pre|style|textarea)(?:[\\s>]|$)|!--)|<\\?|<![A-Za-z]|<!\\[CDATA\\[)").replace("tag",md).getRegex(),eb=/^(?!bull |blockCode|fences|blockquote|heading|html|table)((?:.|\n(?!\s*?\n|bull |fences|blockquote|heading|hr|html|table))+?)\n {0,3}(=+|-+)[ \t]*(?:\n+|$)/,tb=ae(eb).replace(/bull/g,hd).replace(/blockCode/g,/(?: {4}| {0,3}\t)/).replace(/fences/g,/ {0,3}(?:`{3,}|~{3,})/).replace(/blockquote/g,/ {0,3}>/).replace(/heading/g,/ {0,3}#{1,6}(?:\s|$)/).replace(/hr/g,/ {0,3}(?:(?:-[\t ]*){3,}|(?:_[ \t]*){3,}|(?:\*[ \t]*){3,})(?:\n+|$)/).replace(/\|table/g,"").replace(/html/g,Zr).getRegex(),kO=ae(eb).replace(/bull/g,hd).replace(/blockCode/g,/(?: {4}| {0,3}\t)/).replace(/fences/g,/ {0,3}(?:`{3,}|~{3,})/).replace(/blockquote/g,/ {0,3}>/).replace(/heading/g,/ {0,3}#{1,6}(?:\s|$)/).replace(/hr/g,/ {0,3}(?:(?:-[\t ]*){3,}|(?:_[ \t]*){3,}|(?:\*[ \t]*){3,})(?:\n+|$)/).replace(/table/g,/ {0,3}\|?(?:[:\- ]*\|)+[\:\- ]*\n/).replace(/html/g,Zr).getRegex(),gd=/^([^\n]+(?:\n(?!hr|heading|lheading|blockquote|fences|list|html|table|[ \t]+\n)[^\n]+)*)/,xO=/^[^\n]+/,$d=/(?!\s*\])(?:\\[\s\S]|[^\[\]\\\n]|\n(?![ \t]*\n))+/,SO=ae(/^ {0,3}\[(label)\]: *(?:\n[ \t]*)?([^<\s][^\s]*|<(?:\\.|[^\n<>\\])*>)(?:(?: +(?:\n[ \t]*)?| *\n[ \t]*)(title))? *(?:\n+|$)/).replace("label",$d).replace("title",/(?:"(?:\\[\s\S]|[^"\\])*"|'(?:\\[\s\S]|[^'\\\n]|\n(?!\n))*'|\((?:\\[\s\S]|[^()\\])*\))/).getRegex(),EO=ae(/^(bull)([ \t][^\n]*?)?(?:\n|$)/).replace(/bull/g,hd).getRegex(),vd=/<!--(?:-?>|[\s\S]*?(?:-->|$))/,CO=ae("^ {0,3}(?:<(script|pre|style|textarea)[\\s>][\\s\\S]*?(?:</\\1>[^\\n]*\\n*|$)|comment[^\\n]*(\\n+|$)|<\\?[\\s\\S]*?(?:\\?>[^\\n]*\\n*|$)|<![A-Z][\\s\\S]*?(?:>[^\\n]*\\n*|$)|<!\\[CDATA\\[[\\s\\S]*?(?:\\]\\]>[^\\n]*\\n*|$)|</?(tag)(?:[ \\t]+|\\n|/?>|$)[\\s\\S]*?(?:(?:\\n[ 	]*)+\\n|$)|<(?!(?:script|pre|style|textarea)(?![a-z0-9-]))([a-z][a-z0-9-]*)(?:attribute)*?[ \\t]*/?>(?=[ \\t]*(?:\\n|$))[\\s\\S]*?(?:(?:\\n[ 	]*)+\\n|$)|</[a-z][a-z0-9-]*\\s*>(?=[ \\t]*(?:\\n|$))[\\s\\S]*?(?:(?:\\n[ 	]*)+\\n|$))","i").replace("comment",vd).replace("tag",md).replace("attribute",/[ \t]+[a-zA-Z:_][\w.:-]*(?:[ \t]*=[ \t]*"[^"\n]*"|[ \t]*=[ \t]*'[^'\n]*'|[ \t]*=[ \t]*[^\s"'=<>`]+)?/).getRegex(),nb=t=>ae(gd).replace("hr",Yr).replace("heading"," {0,3}#{1,6}(?:\\s|$)").replace("|lheading","").replace("|table","").replace("blockquote"," {0,3}>").replace("fences"," {0,3}(?:`{3,}(?=[^`\\n]*(?:\\n|$))|~~~)[^\\n]*(?:\\n|$)").replace("list",t).replace("html",Zr).getRegex(),TO=nb(/ {0,3}(?:[*+-]|1[.)])[ \t]+[^ \t\n]/),OO=nb(/ {0,3}(?:[*+-]|\d{1,9}[.)])(?:[ \t]|\n|$)/),AO=ae(/^( {0,3}> ?(?:(?![ \t]*(?:\n|$))(paragraph)|[^\n]*)(?:\n|$))+/).replace("paragraph",OO).getRegex(),bd={blockquote:AO,code:wO,def:SO,fences:yO,heading:_O,hr:Yr,html:CO,lheading:tb,list:EO,newline:bO,paragraph:TO,table:Eo,text:xO},q0=ae("^ *([^\\n ].*)\\n {0,3}((?:\\| *)?:?-+:? *(?:\\| *:?-+:? *)*(?:\\| *)?)(?:\\n((?:(?! *\\n|hr|heading|blockquote|code|fences|list|html).*(?:\\n|$))*)\\n*|$)").replace("hr",Yr).replace("heading"," {0,3}#{1,6}(?:\\s|$)").replace("blockquote"," {0,3}>").replace("code","(?: {4}| {0,3}	)[^\\n]").replace("fences"," {0,3}(?:`{3,}(?=[^`\\n]*(?:\\n|$))|~~~)[^\\n]*(?:\\n|$)").replace("list"," {0,3}(?:[*+-]|1[.)])[ \\t]").replace("html",Zr).getRegex(),MO={...bd,lheading:kO,table:q0,paragraph:ae(gd).replace("hr",Yr).replace("heading"," {0,3}#{1,6}(?:\\s|$)").replace("|lheading","").replace("table",q0).replace("blockquote"," {0,3}>").replace("fences"," {0,3}(?:`{3,}(?=[^`\\n]*(?:\\n|$))|~~~)[^\\n]*(?:\\n|$)").replace("list"," {0,3}(?:[*+-]|1[.)])[ \\t]+[^ \\t\\n]").replace("html",Zr).getRegex()},RO={...bd,html:ae(`^ *(?:comment(?: *\\n|\\s*$)|<(tag)[\\s\\S]+?</\\1>(?: *\\n{2,}|\\s*$)|<tag(?:"[^"]*"|'[^']*'|\\s[^'"/>\\s]*)*?/?>(?: *\\n{2,}|\\s*$))`).replace("comment",vd).replace(/tag/g,"(?!(?:a|em|strong|small|s|cite|q|dfn|abbr|data|time|code|var|samp|kbd|sub|sup|i|b|u|mark|ruby|rt|rp|bdi|bdo|span|br|wbr|ins|del|img)\\b)\\w+(?!:|[^\\w\\s@]*@)\\b").getRegex(),def:/^ *\[([^\]]+)\]: *<?([^\s>]+)>?(?: +(["(][^\n]+[")]))? *(?:\n+|$)/,heading:/^(#{1,6})(.*)(?:\n+|$)/,fences:Eo,lheading:/^(.+?)\n {0,3}(=+|-+) *(?:\n+|$)/,paragraph:ae(gd).replace("hr",Yr).replace("heading",` *#{1,6} *[^
]`).replace("|table","").replace("blockquote"," {0,3}>").replace("|fences","").replace("|list","").replace("|html","").replace("|tag","").replace("lheading",tb).getRegex()},LO=/^\\([!"#$%&'()*+,\-./:;<=>?@\[\]\\^_`{|}~])/,PO=/^(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)/,sb=/^( {2,}|\\)\n(?!\s*$)[ \t]*/,IO=/^(`+|[^`])(?:(?= {2,}\n)|[\s\S]*?(?:(?=[\\<!\[`*_]|\b_|$)|[^ ](?= {2,}\n)))/,is=/[\p{P}\p{S}]/u,Fi=/[\s\p{P}\p{S}]/u,Jr=/[^\s\p{P}\p{S}]/u,DO=ae(/^((?![*_])punctSpace)/,"u").replace(/punctSpace/g,Fi).getRegex(),NO=/[\p{Pi}\p{Ps}"']/u,ob=/(?!~)[\p{P}\p{S}]/u,FO=/(?!~)[\s\p{P}\p{S}]/u,zO=/(?:[^\s\p{P}\p{S}]|~)/u,WO=ae(/link|precode-code|html/,"g").replace("link",/\[(?:[^\[\]`]|(?<a>`+)[^`]+\k<a>(?!`))*?\]\((?:\\[\s\S]|[^\\\(\)]|\((?:\\[\s\S]|[^\\\(\)])*\))*\)/).replace("precode-",X0?"(?<!`)()":"(^^|[^`])").replace("code",/(?<b>`+)[^`]+\k<b>(?!`)/).replace("html",/<(?! )[^<>]*?>/).getRegex(),ib=/^(?:\*+(?:((?!\*)punct)|([^\s*]))?)|^_+(?:((?!_)punct)|([^\s_]))?/,BO=ae(ib,"u").replace(/punct/g,is).getRegex(),qO=ae(ib,"u").replace(/punct/g,ob).getRegex(),UO=/^(?:\*+(?:((?!\*)(?!openQuote)punct)|([^\s*]))?)|^_+(?:((?!_)(?!openQuote)punct)|([^\s_]))?/,jO=ae(UO,"u").replace(/openQuote/g,NO).replace(/punct/g,is).getRegex(),rb="^[^_*]*?__[^_*]*?\\*[^_*]*?(?=__)|[^*]+(?=[^*])|(?!\\*)punct(\\*+)(?=[\\s]|$)|notPunctSpace(\\*+)(?!\\*)(?=punctSpace|$)|(?!\\*)punctSpace(\\*+)(?=notPunctSpace)|[\\s](\\*+)(?!\\*)(?=punct)|(?!\\*)punct(\\*+)(?!\\*)(?=punct)|notPunctSpace(\\*+)(?=notPunctSpace)",HO=ae(rb,"gu").replace(/notPunctSpace/g,Jr).replace(/punctSpace/g,Fi).replace(/punct/g,is).getRegex(),GO=ae(rb,"gu").replace(/notPunctSpace/g,zO).replace(/punctSpace/g,FO).replace(/punct/g,ob).getRegex(),VO="^[^_*]*?__[^_*]*?\\*[^_*]*?(?=__)|[^*]+(?=[^*])|(?!\\*)punct(\\*+)(?=[\\s]|$)|notPunctSpace(\\*+)(?!\\*)(?=punctSpace|$)|(?!\\*)[\\s](\\*+)(?=notPunctSpace)|[\\s](\\*+)(?!\\*)(?=punct)|(?!\\*)punct(\\*+)(?!\\*)(?=punct)|(?:(?!\\*)punct|notPunctSpace)(\\*+)(?!\\*)(?=notPunctSpace)",KO=ae(VO,"gu").replace(/notPunctSpace/g,Jr).replace(/punctSpace/g,Fi).replace(/punct/g,is).getRegex(),YO=ae("^[^_*]*?\\*\\*[^_*]*?_[^_*]*?(?=\\*\\*)|[^_]+(?=[^_])|(?!_)punct(_+)(?=[\\s]|$)|notPunctSpace(_+)(?!_)(?=punctSpace|$)|(?!_)punctSpace(_+)(?=notPunctSpace)|[\\s](_+)(?!_)(?=punct)|(?!_)punct(_+)(?!_)(?=punct)","gu").replace(/notPunctSpace/g,Jr).replace(/punctSpace/g,Fi).replace(/punct/g,is).getRegex(),ZO="^[^_*]*?\\*\\*[^_*]*?_[^_*]*?(?=\\*\\*)|[^_]+(?=[^_])|(?!_)punct(_+)(?=[\\s]|$)|notPunctSpace(_+)(?!_)(?=punctSpace|$)|(?!_)[\\s](_+)(?=notPunctSpace)|[\\s](_+)(?!_)(?=punct)|(?!_)punct(_+)(?!_)(?=punct)|(?:(?!_)punct|notPunctSpace)(_+)(?!_)(?=notPunctSpace)",JO=ae(ZO,"gu").replace(/notPunctSpace/g,Jr).replace(/punctSpace/g,Fi).replace(/punct/g,is).getRegex(),QO=ae(/^~~?(?:((?!~)punct)|[^\s~])/,"u").replace(/punct/g,is).getRegex(),XO="^[^~]+(?=[^~])|(?!~)punct(~~?)(?=[\\s]|$)|notPunctSpace(~~?)(?!~)(?=punctSpace|$)|(?!~)punctSpace(~~?)(?=notPunctSpace)|[\\s](~~?)(?!~)(?=punct)|(?!~)punct(~~?)(?!~)(?=punct)|notPunctSpace(~~?)(?=notPunctSpace)",eA=ae(XO,"gu").replace(/notPunctSpace/g,Jr).replace(/punctSpace/g,Fi).replace(/punct/g,is).getRegex(),tA=ae(/\\(punct)/,"gu").replace(/punct/g,is).getRegex(),nA=ae(/(`+)(?:[^`]|[^`][\s\S]*?[^`])\1(?!`)|`+|\\(punct)/,"gu").replace(/punct/g,is).getRegex(),sA=ae(/^<(scheme:[^\s\x00-\x1f<>]*|email)>/).replace("scheme",/[a-zA-Z][a-zA-Z0-9+.-]{1,31}/).replace("email",/[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+(@)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)+(?![-_])/).getRegex(),oA=ae(vd).replace("(?:-->|$)","-->").getRegex(),iA=ae("^comment|^</[a-zA-Z][a-zA-Z0-9-]*\\s*>|^<[a-zA-Z][a-zA-Z0-9-]*(?:attribute)*?\\s*/?>|^<\\?[\\s\\S]*?\\?>|^<![a-zA-Z]+\\s[\\s\\S]*?>|^<!\\[CDATA\\[[\\s\\S]*?\\]\\]>").replace("comment",oA).replace("attribute",/\s+[a-zA-Z:_][\w.:-]*(?:\s*=\s*"[^"]*"|\s*=\s*'[^']*'|\s*=\s*[^\s"'=<>`]+)?/).getRegex(),lb=/\[(?:\\[\s\S]|[^\[\]\\])*\]/,fc=ae(/(?:\[(?:brackets|\\[\s\S]|[^\[\]\\])*\]|\\[\s\S]|`+(?!`)[^`]*?`+(?!`)|``+(?=\])|[^\[\]\\`])*?/).replace("brackets",lb).getRegex(),rA=ae(/^!?\[(label)\]\([ \t\n]*(href)(?:(?:[ \t]+(?:\n[ \t]*)?|\n[ \t]*)(title))?[ \t\n]*\)/).replace("label",fc).replace("href",/<(?:\\.|[^\n<>\\])*>|(?!<)[^ \t\n\x00-\x1f]+|(?=\))/).replace("title",/"(?:\\[\s\S]|[^"\\])*"|'(?:\\[\s\S]|[^'\\])*'|\((?:\\[\s\S]|[^)\\])*\)/).getRegex(),lA=ae(/^!?\[(label)\]\[(ref)\]/).replace("label",fc).replace("ref",$d).getRegex(),aA=ae(/^!?\[(ref)\](?:\[\])?/).replace("ref",$d).getRegex(),U0=/(?!\s*\])(?:\\[\s\S]|[^\[\]\\]){1,999}/,cA=ae(/(?:[^\[\]\\`]*(?:\[(?:brackets|\\[\s\S]|[^\[\]\\])*\]|\\[\s\S]|`+(?!`)[^`]*?`+(?!`)|``+(?=\]))){0,999}?[^\[\]\\`]*?/).replace("brackets",lb).getRegex(),uA=ae("reflink|nolink(?!\\()","g").replace("reflink",ae(/^!?\[(label)\]\[(ref)\]/).replace("label",cA).replace("ref",U0).getRegex()).replace("nolink",ae(/^!?\[(ref)\](?:\[\])?/).replace("ref",U0).getRegex()).getRegex(),j0=/[hH][tT][tT][pP][sS]?|[fF][tT][pP]/,fA=/[A-Za-z0-9._+-]+@[a-zA-Z0-9-_]+(?:\.[a-zA-Z0-9-_]*[a-zA-Z0-9])+(?![\w-])/,dA=ae(/(?:mailto:email|xmpp:email(?:\/[A-Za-z0-9@.]+)?)/).replace(/email/g,fA).getRegex(),wd={_backpedal:Eo,anyPunctuation:tA,anyPunctuationOutsideCode:nA,autolink:sA,blockSkip:WO,br:sb,code:PO,del:Eo,delLDelim:Eo,delRDelim:Eo,emStrongLDelim:BO,emStrongRDelimAst:HO,emStrongRDelimUnd:YO,escape:LO,link:rA,nolink:aA,punctuation:DO,reflink:lA,reflinkSearch:uA,tag:iA,text:IO,url:Eo},pA={...wd,emStrongLDelim:jO,emStrongRDelimAst:KO,emStrongRDelimUnd:JO,link:ae(/^!?\[(label)\]\((.*?)\)/).replace("label",fc).getRegex(),reflink:ae(/^!?\[(label)\]\s*\[([^\]]*)\]/).replace("label",fc).getRegex()},ud={...wd,emStrongRDelimAst:GO,emStrongLDelim:qO,delLDelim:QO,delRDelim:eA,url:ae(/^emailProtocol|^((?:protocol):\/\/|www\.)(?:[a-zA-Z0-9\-]+\.?)+[^\s<]*|^email/).replace("emailProtocol",dA).replace("protocol",j0).replace("email",/[A-Za-z0-9._+-]+(@)[a-zA-Z0-9-_]+(?:\.[a-zA-Z0-9-_]*[a-zA-Z0-9])+(?![\w-])/).getRegex(),_backpedal:/(?:[^?!.,:;*_'"~()&]+|\([^)]*\)|&(?![a-zA-Z0-9]+;$)|[?!.,:;*_'"~)]+(?!$))+/,del:/^(~~?)(?=[^\s~])((?:\\[\s\S]|[^\\])*?(?:\\[\s\S]|[^\s~\\]))\1(?=[^~]|$)/,text:ae(/^(?:[^a-zA-Z0-9](?=emailProtocol)|(`+|~+|[^`~])(?:(?=[`~])|(?= {2,}\n)|(?=[a-zA-Z0-9.!#$%&'*+\/=?_`{\|}~-]+@)|[\s\S]*?(?:(?=[\\<!\[`*~_]|\b_|protocol:\/\/|wwwStart|$)|[^ ](?= {2,}\n)|[^a-zA-Z0-9](?=emailProtocol)|[^a-zA-Z0-9.!#$%&'*+\/=?_`{\|}~-](?=[a-zA-Z0-9.!#$%&'*+\/=?_`{\|}~-]+@))))/).replace("protocol",j0).replace(/emailProtocol/g,/(?:mailto|xmpp):/).replace("wwwStart",X0?"(?<![^\\s*_~(])www\\.":"www\\.").getRegex()},hA={...ud,br:ae(sb).replace("{2,}","*").getRegex(),text:ae(ud.text).replace("\\b_","\\b_| {2,}\\n").replace(/\{2,\}/g,"*").getRegex()},cc={normal:bd,gfm:MO,pedantic:RO},Vr={normal:wd,gfm:ud,breaks:hA,pedantic:pA},mA={"&":"&amp;","<":"&lt;",">":"&gt;",'"':"&quot;","'":"&#39;"},H0=t=>mA[t];function an(t,e){if(e){if(wt.escapeTest.test(t))return t.replace(wt.escapeReplace,H0)}else if(wt.escapeTestNoEncode.test(t))return t.replace(wt.escapeReplaceNoEncode,H0);return t}function gA(t){return wt.numericCharacterReference.test(t)?t.replace(wt.numericCharacterReferenceOrAmpersand,(e,n,s)=>{if(n===void 0&&s===void 0)return"&amp;";let o=n===void 0?Number.parseInt(s,16):Number.parseInt(n,10);return o===0||o>1114111||o>=55296&&o<=57343?"�":o===38?"&amp;":String.fromCodePoint(o)}):t}function G0(t){try{t=encodeURI(t).replace(wt.percentDecode,"%")}catch{return null}return t}function V0(t,e){let n=t.replace(wt.findPipe,(i,r,l)=>{let a=!1,u=r;for(;--u>=0&&l[u]==="\\";)a=!a;return a?"|":" |"}),s=n.split(wt.splitPipe),o=0;if(s[0].trim()||s.shift(),s.length>0&&!s.at(-1)?.trim()&&s.pop(),e)if(s.length>e)s.splice(e);else for(;s.length<e;)s.push("");for(;o<s.length;o++)s[o]=s[o].trim().replace(wt.slashPipe,"|");return s}function ks(t,e,n){let s=t.length;if(s===0)return"";let o=0;for(;o<s;){let i=t.charAt(s-o-1);if(i===e&&!n)o++;else if(i!==e&&n)o++;else break}return t.slice(0,s-o)}function K0(t){let e=t.split(`
`),n=e.length-1;for(;n>=0&&wt.blankLine.test(e[n]);)n--;return e.length-n<=2?t:e.slice(0,n+1).join(`
`)}function dc(t){return t.trim().replace(wt.multipleSpaceGlobal," ").toLowerCase().toUpperCase().toLowerCase()}function Y0(t,e){if(t.indexOf(e[0])===-1&&t.indexOf(e[1])===-1)return-1;let n=0;for(let s=0;s<t.length;s++)if(t[s]==="\\")s++;else if(t[s]===e[0])n++;else if(t[s]===e[1]&&(n--,n<0))return s;return n>0?-2:-1}var Ni=new WeakMap;function yd(t){let e={"*":-1,_:-1},n=-1,s=t.length;for(let o=0;o<s;o++){let i=t[o];if(i!=="*"&&i!=="_"&&i!=="~")continue;let r=o===0?`
`:t[o-1],l=o+1;for(;l<s&&t[l]===i;)l++;r!==" "&&r!=="	"&&r!==`
`&&r!=="\r"&&r!=="\f"&&(i==="~"?n=o:e[i]=o),o=l-1}return{maskedSrc:t,lastPossibleEmStrongCloserIndex:e,lastPossibleDelCloserIndex:n}}function $A(t,e){let n=yd(e),s=Ni.get(t);s?s.push(n):Ni.set(t,[n])}function vA(t){let e=Ni.get(t);e&&(e.pop(),e.length===0&&Ni.delete(t))}function ab(t,e,n){let s=Ni.get(t)?.at(-1);return s&&s.maskedSrc===e?s.lastPossibleEmStrongCloserIndex[n]:yd(e).lastPossibleEmStrongCloserIndex[n]}function cb(t,e){let n=Ni.get(t)?.at(-1);return n&&n.maskedSrc===e?n.lastPossibleDelCloserIndex:yd(e).lastPossibleDelCloserIndex}function uc(t,e=0){let n=e,s="";for(let o of t)if(o==="	"){let i=4-n%4;s+=" ".repeat(i),n+=i}else s+=o,n++;return s}function bA(t,e){let n="";for(let s=0;s<t.length;s++){if(t[s]==="`"){let o=e.inline.code.exec(t.slice(s));if(o){n+=o[0],s+=o[0].length-1;continue}}if(t[s]==="\\"&&(t[s+1]==="["||t[s+1]==="]")){n+=t[s+1],s++;continue}n+=t[s]}return n}function Z0(t,e,n,s,o){let i=e.href,r=e.title||null,l=bA(t[1],o),a=t[0].charAt(0)==="!",u=s.state.inLink,f=s.state.linkEmitted,d=s.state.inRawBlock;s.state.inLink=!0,s.state.linkEmitted=!1;let h=s.inlineTokens(l),g=s.state.linkEmitted;if(s.state.linkEmitted=f,s.state.inLink=u,!a){if(g){s.state.inRawBlock=d;return}s.state.linkEmitted=!0}return{type:a?"image":"link",raw:n,href:i,title:r,text:l,tokens:h}}function wA(t,e,n){let s=t.match(n.other.indentCodeCompensation);if(s===null)return e;let o=s[1];return e.split(`
`).map(i=>{let r=i.match(n.other.beginningSpace);if(r===null)return i;let[l]=r;return i.slice(Math.min(l.length,o.length))}).join(`
`)}function J0(t,e,n,s){if(!e.includes("<"))return!1;for(let o=0;o<e.length;o++){if(e[o]==="\\"){o++;continue}if(e[o]==="`"){let l=s.inline.code.exec(e.slice(o));if(l){o+=l[0].length-1;continue}}if(e[o]!=="<")continue;let i=t.slice(n+o),r=s.inline.tag.exec(i)||s.inline.autolink.exec(i);if(r){if(r[0].length>e.length-o)return!0;o+=r[0].length-1}}return!1}var Co=class{options;rules;lexer;constructor(t){this.options=t||Oo}space(t){let e=this.rules.block.newline.exec(t);if(e&&e[0].length>0)return{type:"space",raw:e[0]}}code(t){let e=this.rules.block.code.exec(t);if(e){let n=this.options.pedantic?e[0]:K0(e[0]),s=n.replace(this.rules.other.codeRemoveIndent,"");return{type:"code",raw:n,codeBlockStyle:"indented",text:s}}}fences(t){let e=this.rules.block.fences.exec(t);if(e){let n=e[0],s=wA(n,e[3]||"",this.rules);return e[3]!==void 0&&(s===""||s.endsWith(`
`))&&(s+=`
`),{type:"code",raw:n,lang:e[2]?e[2].trim().replace(this.rules.inline.anyPunctuation,"$1"):e[2],text:s}}}heading(t){let e=this.rules.block.heading.exec(t);if(e){let n=e[2].trim();if(this.rules.other.endingHash.test(n)){let s=ks(n,"#");(this.options.pedantic||!s||this.rules.other.endingSpaceTabChar.test(s))&&(n=s.trim())}return{type:"heading",raw:ks(e[0],`
`),depth:e[1].length,text:n,tokens:this.lexer.inline(n)}}}hr(t){let e=this.rules.block.hr.exec(t);if(e)return{type:"hr",raw:ks(e[0],`
`)}}blockquote(t){let e=this.rules.block.blockquote.exec(t);if(e){let n=ks(e[0],`
`).split(`
`),s="",o="",i=[];for(;n.length>0;){let r=!1,l=[],a;for(a=0;a<n.length;a++)if(this.rules.other.blockquoteStart.test(n[a]))l.push(n[a]),r=!0;else if(!r)l.push(n[a]);else break;n=n.slice(a);let u=l.join(`
`),f=u.replace(this.rules.other.blockquoteMarkerWhitespace,(g,v,_)=>_.startsWith(" ")?v+" "+_.slice(1):v+uc(_,v.length)).replace(this.rules.other.blockquoteSetextReplace,`
    $1`).replace(this.rules.other.blockquoteSetextReplace2,"");s=s?`${s}
${u}`:u,o=o?`${o}
${f}`:f;let d=this.lexer.state.top;if(this.lexer.state.top=!0,this.lexer.blockTokens(f,i,!0),this.lexer.state.top=d,n.length===0)break;let h=i.at(-1);if(h?.type==="code"||h?.type==="heading"||h?.type==="hr"||h?.type==="html"||h?.type==="table")break;if(h?.type==="blockquote"){let g=h,v=n.join(`
`),_=g.raw+`
`+v.replace(this.rules.other.blockquoteSetextReplace2,""),k=this.blockquote(_);i[i.length-1]=k;let T=_.substring(k.raw.length).replace(/^\n/,""),y=T?T.split(`
`).length:0,E=y?n.slice(0,-y):n;if(E.length>0&&(s=`${s}
${E.join(`
`)}`),o=o.substring(0,o.length-g.text.length)+k.text,n=n.slice(E.length),n.length>0&&this.rules.other.blockquoteStart.test(n[0]))continue;break}else if(h?.type==="list"){let g=h,v=g.raw+`
`+n.join(`
`),_=this.list(v);i[i.length-1]=_;let k=_.raw.length>g.raw.length?v.slice(g.raw.length+1,_.raw.length).split(`
`).length:0;if(k>0){let T=n.slice(0,k).join(`
`);s=`${s}
${T}`,o=`${o}
${T}`}if(n=n.slice(k),n.length>0&&!this.rules.other.blockquoteStart.test(n[0]))break;continue}}return{type:"blockquote",raw:s,tokens:i,text:o}}}list(t){let e=this.rules.block.list.exec(t);if(e){if(!this.options.pedantic&&this.lexer.state.lastToken?.type==="text"&&!this.rules.other.listInterruptsParagraph.test(t))return;let n=t,s=()=>n.length-t.length,o=e[1].trim(),i=o.length>1,r={type:"list",raw:"",ordered:i,start:i?+o.slice(0,-1):"",loose:!1,items:[]};o=i?`\\d{1,9}\\${o.slice(-1)}`:`\\${o}`,this.options.pedantic&&(o=i?o:"[*+-]");let l=this.rules.other.listItemRegex(o),a=!1;for(;t;){let d=!1,h="";if(!(e=l.exec(t))||this.rules.block.hr.test(t))break;let g=s();t=t.substring(e[0].length);let v=e[2].split(`
`,1)[0],_=e[1].length,k=this.options.pedantic?uc(v,_):v.replace(this.rules.other.leadingSpaceTab,U=>uc(U,_)),T=t.split(`
`,1)[0],y=!k.trim(),E=0;if(this.options.pedantic?(E=2,h=k.trimStart()):y?E=_+1:(E=k.search(this.rules.other.nonSpaceChar),E=E>4?1:E,h=k.slice(E),E+=_),y&&this.rules.other.blankLine.test(T)&&(t=t.substring(T.length+1),d=!0),!d){let U=this.rules.other.nextBulletRegex(E),F=this.rules.other.hrRegex(E),G=this.rules.other.fencesBeginRegex(E),K=this.options.pedantic?this.rules.other.pedanticHeadingBeginRegex(E):this.rules.other.headingBeginRegex(E),se=this.rules.other.htmlBeginRegex(E),J=this.rules.other.blockquoteBeginRegex(E),N=!1;for(;t;){let Q=t.split(`
`,1)[0],B;if(T=Q,this.options.pedantic?(T=T.replace(this.rules.other.listReplaceNesting,"  "),B=T):B=T.replace(this.rules.other.leadingSpaceTab,Z=>uc(Z)),G.test(T)||K.test(T)||se.test(T)||J.test(T)||U.test(T)||F.test(T))break;if(B.search(this.rules.other.nonSpaceChar)>=E||!T.trim())h+=`
`+B.slice(E),N=!1;else{if(y)break;let Z=k;if(!this.options.pedantic&&!h.includes(`
`)&&!k.includes("	")){let ce;for(;!F.test(Z)&&(ce=this.rules.other.nestedBlockMarker.exec(Z));)Z=Z.slice(ce[0].length);if(!Z.trim())break}if(Z.replace(this.rules.other.tabCharGlobal,"    ").search(this.rules.other.nonSpaceChar)>=4||G.test(Z)||K.test(Z)||se.test(Z)||F.test(Z))break;if(!this.options.pedantic&&!N){let ce=k.replace(this.rules.other.nestedContainerMarkers,"");if(this.rules.block.fences.test(ce)||this.rules.block.heading.test(ce)||this.rules.block.hr.test(ce))break}let X=!this.options.pedantic&&/^ {0,3}(?:=+|-+) *$/.test(T)&&this.rules.block.lheading.test(`${k}
${T}`)?`    ${B.replace(/^ {0,3}/,"")}`:T;h+=`
`+X,N=!0}y=!T.trim(),t=t.substring(Q.length+1),k=B.slice(E)}}let A=n.slice(g,s());r.loose||(a?r.loose=!0:this.rules.other.doubleBlankLine.test(A)&&(a=!0)),r.items.push({type:"list_item",raw:A,task:!!this.options.gfm&&this.rules.other.listIsTask.test(h),loose:!1,text:h,tokens:[]})}let u=r.items.at(-1);if(u)u.raw=u.raw.trimEnd(),u.text=u.text.trimEnd();else return;r.raw=n.slice(0,s()).trimEnd();let f=[];for(let d of r.items)if(this.lexer.state.top=!1,f.push(this.lexer.inlineQueue.length),d.tokens=this.lexer.blockTokens(d.text,[]),!r.loose){let h=d.tokens.filter(v=>v.type==="space"),g=h.length>0&&h.some(v=>this.rules.other.anyLine.test(v.raw));r.loose=g}for(let d=0;d<r.items.length;d++){let h=r.items[d],g=h.tokens[0];if(h.task&&(g?.type==="text"||g?.type==="paragraph")){h.text=h.text.replace(this.rules.other.listReplaceTask,""),g.raw=g.raw.replace(this.rules.other.listReplaceTask,""),g.text=g.text.replace(this.rules.other.listReplaceTask,"");let v=this.lexer.inlineQueue;for(let k=f[d];k<v.length;k++)if(v[k].tokens===g.tokens){v[k].src=v[k].src.replace(this.rules.other.listReplaceTask,"");break}let _=this.rules.other.listTaskCheckbox.exec(h.raw);if(_){let k={type:"checkbox",raw:_[0]+" ",checked:_[0]!=="[ ]"};h.checked=k.checked,r.loose?h.tokens[0]&&["paragraph","text"].includes(h.tokens[0].type)&&"tokens"in h.tokens[0]&&h.tokens[0].tokens?(h.tokens[0].raw=k.raw+h.tokens[0].raw,h.tokens[0].text=k.raw+h.tokens[0].text,h.tokens[0].tokens.unshift(k)):h.tokens.unshift({type:"paragraph",raw:k.raw,text:k.raw,tokens:[k]}):h.tokens.unshift(k)}}else h.task&&(h.task=!1)}if(r.loose)for(let d of r.items){d.loose=!0;for(let h of d.tokens)h.type==="text"&&(h.type="paragraph")}return r}}html(t){let e=this.rules.block.html.exec(t);if(e){if(this.lexer.state.lastToken?.type==="paragraph"&&!this.rules.other.htmlBeginRegex(4).test(t))return;let n=K0(e[0]);return{type:"html",block:!0,raw:n,pre:e[1]==="pre"||e[1]==="script"||e[1]==="style",text:n}}}def(t){let e=this.rules.block.def.exec(t);if(e){if(!this.rules.other.startAngleBracket.test(e[2])&&Y0(e[2],"()")!==-1)return;let n=dc(e[1]),s=e[2]?e[2].replace(this.rules.other.hrefBrackets,"$1").replace(this.rules.inline.anyPunctuation,"$1"):"",o=e[3]?e[3].substring(1,e[3].length-1).replace(this.rules.inline.anyPunctuation,"$1"):e[3];return{type:"def",tag:n,raw:ks(e[0],`
`),href:s,title:o}}}table(t){let e=this.rules.block.table.exec(t);if(!e||!this.rules.other.tableDelimiter.test(e[2]))return;let n=V0(e[1]),s=e[2].replace(this.rules.other.tableAlignChars,"").split("|"),o=e[3]?.trim()?e[3].replace(this.rules.other.tableRowBlankLine,"").split(`
`):[],i={type:"table",raw:ks(e[0],`
`),header:[],align:[],rows:[]};if(n.length===s.length){for(let r of s)this.rules.other.tableAlignRight.test(r)?i.align.push("right"):this.rules.other.tableAlignCenter.test(r)?i.align.push("center"):this.rules.other.tableAlignLeft.test(r)?i.align.push("left"):i.align.push(null);for(let r=0;r<n.length;r++)i.header.push({text:n[r],tokens:this.lexer.inline(n[r]),header:!0,align:i.align[r]});for(let r of o)i.rows.push(V0(r,i.header.length).map((l,a)=>({text:l,tokens:this.lexer.inline(l),header:!1,align:i.align[a]})));return i}}lheading(t){let e=this.rules.block.lheading.exec(t);if(e){let n=e[1].trim();return{type:"heading",raw:ks(e[0],`
`),depth:e[2].charAt(0)==="="?1:2,text:n,tokens:this.lexer.inline(n)}}}paragraph(t){let e=this.rules.block.paragraph.exec(t);if(e){let n=e[1].charAt(e[1].length-1)===`
`?e[1].slice(0,-1):e[1];return{type:"paragraph",raw:e[0],text:n,tokens:this.lexer.inline(n)}}}text(t){let e=this.rules.block.text.exec(t);if(e)return{type:"text",raw:e[0],text:e[0],tokens:this.lexer.inline(e[0])}}escape(t){if(t.charCodeAt(0)!==92)return;let e=this.rules.inline.escape.exec(t);if(e)return{type:"escape",raw:e[0],text:e[1]}}tag(t){if(t.charCodeAt(0)!==60)return;let e=this.rules.inline.tag.exec(t);if(e)return!this.lexer.state.inLink&&this.rules.other.startATag.test(e[0])?this.lexer.state.inLink=!0:this.lexer.state.inLink&&this.rules.other.endATag.test(e[0])&&(this.lexer.state.inLink=!1),!this.lexer.state.inRawBlock&&this.rules.other.startPreScriptTag.test(e[0])?this.lexer.state.inRawBlock=!0:this.lexer.state.inRawBlock&&this.rules.other.endPreScriptTag.test(e[0])&&(this.lexer.state.inRawBlock=!1),{type:"html",raw:e[0],inLink:this.lexer.state.inLink,inRawBlock:this.lexer.state.inRawBlock,block:!1,text:e[0]}}link(t){if(this.lexer.state.linkParenPossible===!1)return;let e=t.charCodeAt(0);if(e!==91&&e!==33)return;let n=this.rules.inline.link.exec(t);if(n){let s=n[0].charAt(0)==="!"?2:1;if(!this.options.pedantic&&J0(t,n[1],s,this.rules))return;let o=n[2].trim();if(!this.options.pedantic&&this.rules.other.startAngleBracket.test(o)){if(!this.rules.other.endAngleBracket.test(o))return;let a=ks(o.slice(0,-1),"\\");if((o.length-a.length)%2===0)return}else{let a=Y0(n[2],"()");if(a===-2)return;if(a>-1){let u=(n[0].indexOf("!")===0?5:4)+n[1].length+a;n[2]=n[2].substring(0,a),n[0]=n[0].substring(0,u).trim(),n[3]=""}}let i=ks(n[0].slice(0,-1),"\\");if((n[0].length-i.length)%2===0)return;let r=n[2],l="";if(this.options.pedantic){let a=this.rules.other.pedanticHrefTitle.exec(r);a&&(r=a[1],l=a[3])}else l=n[3]?n[3].slice(1,-1):"";return r=r.trim(),this.rules.other.startAngleBracket.test(r)&&(this.options.pedantic&&!this.rules.other.endAngleBracket.test(o)?r=r.slice(1):r=r.slice(1,-1)),Z0(n,{href:r&&r.replace(this.rules.inline.anyPunctuation,"$1"),title:l&&l.replace(this.rules.inline.anyPunctuation,"$1")},n[0],this.lexer,this.rules)}}reflink(t,e){let n=t.charCodeAt(0);if(n!==91&&n!==33)return;let s;if((s=this.rules.inline.reflink.exec(t))||(s=this.rules.inline.nolink.exec(t))){let o=s[0].charAt(0)==="!"?2:1;if(!this.options.pedantic&&J0(t,s[1],o,this.rules))return;let i=e[dc(s[2]||s[1])];if(!i){let r=s[0].charAt(0);return{type:"text",raw:r,text:r}}return Z0(s,i,s[0],this.lexer,this.rules)}}emStrong(t,e,n=""){let s=this.rules.inline.emStrongLDelim.exec(t);if(!s||!s[1]&&!s[2]&&!s[3]&&!s[4])return;let o=s[0][0],i=n===o,r=e.length-t.length,l=r;for(;!this.options.pedantic&&l>0&&e[l-1]===o;)l--;let a=[...e.slice(Math.max(0,l-2),l)].at(-1)??"",u=a==="*"||a==="_"||!!this.rules.inline.punctuation.exec(a);l<r&&(n=a);let f=l<r?u:n==="*"||n==="_"||!!this.rules.inline.punctuation.exec(n);if(s[4]&&n.match(this.rules.other.unicodeAlphaNumeric))return;let d=s[1]||s[3]||"";if(!d||!n||f){let h=[...s[0]].length-1,g,v,_=h,k=0,T=r-l+h,y=!this.options.pedantic&&!!a.trim()&&(!!d||o==="*"&&!u);if(o!=="*"&&o!=="_")return;let E=o==="*"?this.rules.inline.emStrongRDelimAst:this.rules.inline.emStrongRDelimUnd,A=ab(this,e,o),U=e.length-t.length+h;if(A<U)return;e=e.slice(-1*t.length+h);let F=A-U;for(E.lastIndex=0;(s=E.exec(e))!==null&&!(s.index>F);){if(g=s[1]||s[2]||s[3]||s[4]||s[5]||s[6],!g)continue;if(v=[...g].length,s[3]||s[4]){_+=v;continue}else if((s[5]||s[6]||y)&&T%3&&!((T+v)%3)){if(i&&(s[5]||s[6]))break;k+=v;continue}if(_-=v,_>0)continue;v=Math.min(v,v+_+k);let G=[...s[0]][0].length,K=t.slice(0,h+s.index+G+v);if(Math.min(h,v)%2){let J=K.slice(1,-1);return{type:"em",raw:K,text:J,tokens:this.lexer.inlineTokens(J)}}let se=K.slice(2,-2);return{type:"strong",raw:K,text:se,tokens:this.lexer.inlineTokens(se)}}}}codespan(t){if(t.charCodeAt(0)!==96)return;let e=this.rules.inline.code.exec(t);if(e){let n=e[2].replace(this.rules.other.newLineCharGlobal," "),s=this.rules.other.nonSpaceChar.test(n),o=this.rules.other.startingSpaceChar.test(n)&&this.rules.other.endingSpaceChar.test(n);return s&&o&&(n=n.substring(1,n.length-1)),{type:"codespan",raw:e[0],text:n}}}br(t){let e=t.charCodeAt(0);if(e!==32&&e!==92&&e!==10)return;let n=this.rules.inline.br.exec(t);if(n)return{type:"br",raw:n[0]}}del(t,e,n=""){if(t.charCodeAt(0)!==126)return;let s=this.rules.inline.delLDelim.exec(t);if(s&&(!s[1]||!n||this.rules.inline.punctuation.exec(n))){let o=[...s[0]].length-1,i,r,l=o,a=this.rules.inline.delRDelim,u=cb(this,e),f=e.length-t.length+o;if(u<f)return;e=e.slice(-1*t.length+o);let d=u-f;for(a.lastIndex=0;(s=a.exec(e))!==null&&!(s.index>d);){if(i=s[1]||s[2]||s[3]||s[4]||s[5]||s[6],!i||(r=[...i].length,r!==o))continue;if(s[3]||s[4]){l+=r;continue}if(l-=r,l>0)continue;r=Math.min(r,r+l);let h=[...s[0]][0].length,g=t.slice(0,o+s.index+h+r),v=g.slice(o,-o);return{type:"del",raw:g,text:v,tokens:this.lexer.inlineTokens(v)}}}}autolink(t){if(t.charCodeAt(0)!==60)return;let e=this.rules.inline.autolink.exec(t);if(e){let n,s;return e[2]==="@"?(n=e[1],s="mailto:"+n):(n=e[1],s=n),{type:"link",raw:e[0],text:n,href:s,autolink:!0,tokens:[{type:"text",raw:n,text:n}]}}}url(t){let e;if(e=this.rules.inline.url.exec(t)){let n,s;if(e[2]==="@")n=e[0],s="mailto:"+n;else{let o;do o=e[0],e[0]=this.rules.inline._backpedal.exec(e[0])?.[0]??"";while(o!==e[0]);n=e[0],e[1]==="www."?s="http://"+e[0]:s=e[0]}return{type:"link",raw:e[0],text:n,href:s,autolink:!0,tokens:[{type:"text",raw:n,text:n}]}}}inlineText(t){let e=this.rules.inline.text.exec(t);if(e){let n=this.lexer.state.inRawBlock;return{type:"text",raw:e[0],text:n?e[0]:gA(e[0]),escaped:n}}}},cn=class fd{tokens;options;state;inlineQueue;tokenizer;constructor(e){this.tokens=[],this.tokens.links=Object.create(null),this.options=e||Oo,this.options.tokenizer=this.options.tokenizer||new Co,this.tokenizer=this.options.tokenizer,this.tokenizer.options=this.options,this.tokenizer.lexer=this,this.inlineQueue=[],this.state={inLink:!1,inRawBlock:!1,linkEmitted:!1,linkParenPossible:!0,top:!0};let n={other:wt,block:cc.normal,inline:Vr.normal};this.options.pedantic?(n.block=cc.pedantic,n.inline=Vr.pedantic):this.options.gfm&&(n.block=cc.gfm,this.options.breaks?n.inline=Vr.breaks:n.inline=Vr.gfm),this.tokenizer.rules=n}static get rules(){return{block:cc,inline:Vr}}static lex(e,n){return new fd(n).lex(e)}static lexInline(e,n){return new fd(n).inlineTokens(e)}lex(e){e=e.replace(wt.carriageReturn,`
`),this.blockTokens(e,this.tokens);for(let n=0;n<this.inlineQueue.length;n++){let s=this.inlineQueue[n];this.state.inRawBlock=!1,this.inlineTokens(s.src,s.tokens)}return this.inlineQueue=[],this.tokens}blockTokens(e,n=[],s=!1){this.tokenizer.lexer=this;let o=this.state.lastToken;this.options.pedantic&&(e=e.replace(wt.tabCharGlobal,"    ").replace(wt.spaceLine,""));let i=1/0,r,l=this.options.gfm&&!this.options.pedantic&&this.tokenizer.paragraph===Co.prototype.paragraph;for(;e;){if(e.length<i)i=e.length;else{this.infiniteLoopError(e.charCodeAt(0));break}this.state.lastToken=n.at(-1);let a;if(this.options.extensions?.block?.some(f=>(a=f.call({lexer:this},e,n))?(e=e.substring(a.raw.length),n.push(a),!0):!1))continue;if(a=this.tokenizer.space(e)){e=e.substring(a.raw.length);let f=n.at(-1);a.raw.length===1&&f!==void 0?f.raw+=`
`:n.push(a);continue}if(a=this.tokenizer.code(e)){e=e.substring(a.raw.length);let f=n.at(-1);f?.type==="paragraph"||f?.type==="text"?(f.raw+=(f.raw.endsWith(`
`)?"":`
`)+a.raw,f.text+=`
`+a.text,this.inlineQueue.at(-1).src=f.text):n.push(a);continue}if(a=this.tokenizer.fences(e)){e=e.substring(a.raw.length),n.push(a);continue}if(a=this.tokenizer.heading(e)){e=e.substring(a.raw.length),n.push(a);continue}if(a=this.tokenizer.hr(e)){e=e.substring(a.raw.length),n.push(a);continue}if(a=this.tokenizer.blockquote(e)){e=e.substring(a.raw.length),n.push(a);continue}if(a=this.tokenizer.list(e)){e=e.substring(a.raw.length),n.push(a);continue}if(a=this.tokenizer.html(e)){e=e.substring(a.raw.length),n.push(a);continue}if(a=this.tokenizer.def(e)){e=e.substring(a.raw.length);let f=n.at(-1);f?.type==="paragraph"||f?.type==="text"?(f.raw+=(f.raw.endsWith(`
`)?"":`
`)+a.raw,f.text+=`
`+a.raw,this.inlineQueue.at(-1).src=f.text):(this.tokens.links[a.tag]||(this.tokens.links[a.tag]={href:a.href,title:a.title}),n.push(a));continue}if(a=this.tokenizer.table(e)){e=e.substring(a.raw.length),n.push(a);continue}if(a=this.tokenizer.lheading(e)){e=e.substring(a.raw.length),n.push(a);continue}let u=e;if(this.options.extensions?.startBlock){let f=1/0,d=e.slice(1),h;this.options.extensions.startBlock.forEach(g=>{h=g.call({lexer:this},d),typeof h=="number"&&h>=0&&(f=Math.min(f,h))}),f<1/0&&f>=0&&(u=e.substring(0,f+1))}if(this.state.top&&(a=this.tokenizer.paragraph(u))){let f=n.at(-1);(s||f===r&&l)&&f?.type==="paragraph"?(f.raw+=(f.raw.endsWith(`
`)?"":`
`)+a.raw,f.text+=`
`+a.text,this.inlineQueue.pop(),this.inlineQueue.at(-1).src=f.text,r=f):(n.push(a),r=a),s=u.length!==e.length,e=e.substring(a.raw.length);continue}if(a=this.tokenizer.text(e)){e=e.substring(a.raw.length);let f=n.at(-1);f?.type==="text"?(f.raw+=(f.raw.endsWith(`
`)?"":`
`)+a.raw,f.text+=`
`+a.text,this.inlineQueue.pop(),this.inlineQueue.at(-1).src=f.text):n.push(a);continue}if(e){this.infiniteLoopError(e.charCodeAt(0));break}}return this.state.top=!0,this.state.lastToken=o,n}inline(e,n=[]){return this.inlineQueue.push({src:e,tokens:n}),n}linkInText(e){if(!e.includes("["))return!1;let n=this.tokenizer.rules.inline.link;for(let s of e.matchAll(this.tokenizer.rules.inline.blockSkip))if(n.test(s[0])&&e.charAt(s.index-1)!=="!")return!0;for(let s of e.matchAll(this.tokenizer.rules.inline.reflinkSearch)){let o=s[0],i=o.lastIndexOf("[");if(!(o.charAt(0)==="!"||!Object.hasOwn(this.tokens.links,dc(o.slice(i+1,-1))))&&!(i>1&&this.linkInText(o.slice(1,i-1))))return!0}return!1}inlineTokens(e,n=[]){this.tokenizer.lexer=this;let s=this.state.linkParenPossible;this.state.linkParenPossible=e.includes(")");try{return this.#e(e,n)}finally{this.state.linkParenPossible=s}}#e(e,n){let s=e.includes("*")||e.includes("_")||e.includes("~"),o=s||this.options.hooks?.emStrongMask||this.tokenizer.emStrong!==Co.prototype.emStrong||this.tokenizer.del!==Co.prototype.del?this.#s(e):e;if(!s)return this.#t(e,o,n);$A(this.tokenizer,o);try{return this.#t(e,o,n)}finally{vA(this.tokenizer)}}#t(e,n,s){let o=!1,i="",r=1/0;for(;e;){if(e.length<r)r=e.length;else{this.infiniteLoopError(e.charCodeAt(0));break}o||(i=""),o=!1;let l;if(this.options.extensions?.inline?.some(f=>(l=f.call({lexer:this},e,s))?(e=e.substring(l.raw.length),s.push(l),!0):!1))continue;if(l=this.tokenizer.escape(e)){e=e.substring(l.raw.length),s.push(l);continue}if(l=this.tokenizer.tag(e)){e=e.substring(l.raw.length),s.push(l);continue}if(l=this.tokenizer.link(e)){e=e.substring(l.raw.length),s.push(l);continue}if(l=this.tokenizer.reflink(e,this.tokens.links)){e=e.substring(l.raw.length);let f=s.at(-1);l.type==="text"&&f?.type==="text"?(f.raw+=l.raw,f.text+=l.text):s.push(l);continue}let a=e[0];if(a==="*"||a==="_"){let f=n.length-e.length;if(ab(this.tokenizer,n,a)<=f){let d=1;for(;d<e.length&&e.charCodeAt(d)===a.charCodeAt(0);)d++;let h=e.substring(0,d),g=s.at(-1);g?.type==="text"&&!g.escaped?(g.raw+=h,g.text+=h):s.push({type:"text",raw:h,text:h,escaped:!1}),e=e.substring(d),i=a,o=!0;continue}}else if(a==="~"){let f=n.length-e.length;if(cb(this.tokenizer,n)<=f){let d=1;for(;d<e.length&&e.charCodeAt(d)===126;)d++;let h=e.substring(0,d),g=s.at(-1);g?.type==="text"&&!g.escaped?(g.raw+=h,g.text+=h):s.push({type:"text",raw:h,text:h,escaped:!1}),e=e.substring(d),i=a,o=!0;continue}}if(l=this.tokenizer.emStrong(e,n,i)){e=e.substring(l.raw.length),s.push(l);continue}if(l=this.tokenizer.codespan(e)){e=e.substring(l.raw.length),s.push(l);continue}if(l=this.tokenizer.br(e)){e=e.substring(l.raw.length),s.push(l);continue}if(l=this.tokenizer.del(e,n,i)){e=e.substring(l.raw.length),s.push(l);continue}if(l=this.tokenizer.autolink(e)){e=e.substring(l.raw.length),s.push(l);continue}if(!this.state.inLink&&(l=this.tokenizer.url(e))){e=e.substring(l.raw.length),s.push(l);continue}let u=e;if(this.options.extensions?.startInline){let f=1/0,d=e.slice(1),h;this.options.extensions.startInline.forEach(g=>{h=g.call({lexer:this},d),typeof h=="number"&&h>=0&&(f=Math.min(f,h))}),f<1/0&&f>=0&&(u=e.substring(0,f+1))}if(l=this.tokenizer.inlineText(u)){e=e.substring(l.raw.length),l.raw.slice(-1)!=="_"&&(i=l.raw.slice(-1)),o=!0;let f=s.at(-1);f?.type==="text"?(f.raw+=l.raw,f.text+=l.text):s.push(l);continue}if(e){this.infiniteLoopError(e.charCodeAt(0));break}}return s}#n(e){let{blockSkip:n,tag:s,autolink:o}=this.tokenizer.rules.inline,i="",r=0,l;for(n.lastIndex=0;l=n.exec(e);){let a=l.index+(l[2]?l[2].length:0),u=l.index+l[0].length;if(e.charAt(a)==="<"){let f=e.slice(a),d=s.exec(f)||o.exec(f);if(!d){n.lastIndex=a+1;continue}u=a+d[0].length,n.lastIndex=u}i+=e.slice(r,a)+"["+"a".repeat(u-a-2)+"]",r=u}return i+e.slice(r)}#s(e){let n=e;if(this.tokens.links&&e.includes("[")){let s=this.tokenizer.rules.inline.reflinkSearch,o=i=>{let r=i.lastIndexOf("[");if(!Object.hasOwn(this.tokens.links,dc(i.slice(r+1,-1))))return i;if(r>1&&i.charAt(0)!=="!"){let l=i.slice(1,r-1);if(this.linkInText(l))return"["+l.replace(s,o)+"]["+"a".repeat(i.length-r-2)+"]"}return"["+"a".repeat(i.length-2)+"]"};n=n.replace(s,o)}return n=n.replace(this.tokenizer.rules.inline.anyPunctuationOutsideCode,(s,o,i)=>i?"+".repeat(s.length):o?o+s.slice(o.length,-o.length).replace(/`/g,"+")+o:s),n=this.#n(n),n=this.options.hooks?.emStrongMask?.call({lexer:this},n)??n,n}infiniteLoopError(e){let n="Infinite loop on byte: "+e;if(this.options.silent)console.error(n);else throw new Error(n)}},pc=class{options;parser;constructor(t){this.options=t||Oo}space(t){return""}code({text:t,lang:e,escaped:n}){let s=(e||"").match(wt.notSpaceStart)?.[0],o=t?t.replace(wt.endingNewline,"")+`
`:"";return s?'<pre><code class="language-'+an(s)+'">'+(n?o:an(o,!0))+`</code></pre>
`:"<pre><code>"+(n?o:an(o,!0))+`</code></pre>
`}blockquote({tokens:t}){return`<blockquote>
${this.parser.parse(t)}</blockquote>
`}html({text:t}){return t}def(t){return""}heading({tokens:t,depth:e}){return`<h${e}>${this.parser.parseInline(t)}</h${e}>
`}hr(t){return`<hr>
`}list(t){let e=t.ordered,n=t.start,s="";for(let r=0;r<t.items.length;r++){let l=t.items[r];s+=this.listitem(l)}let o=e?"ol":"ul",i=e&&n!==1?' start="'+n+'"':"";return"<"+o+i+`>
`+s+"</"+o+`>
`}listitem(t){return`<li>${this.parser.parse(t.tokens)}</li>
`}checkbox({checked:t}){return"<input "+(t?'checked="" ':"")+'disabled="" type="checkbox"> '}paragraph({tokens:t}){return`<p>${this.parser.parseInline(t)}</p>
`}table(t){let e="",n="";for(let o=0;o<t.header.length;o++)n+=this.tablecell(t.header[o]);e+=this.tablerow({text:n});let s="";for(let o=0;o<t.rows.length;o++){let i=t.rows[o];n="";for(let r=0;r<i.length;r++)n+=this.tablecell(i[r]);s+=this.tablerow({text:n})}return s&&(s=`<tbody>${s}</tbody>`),`<table>
<thead>
`+e+`</thead>
`+s+`</table>
`}tablerow({text:t}){return`<tr>
${t}</tr>
`}tablecell(t){let e=this.parser.parseInline(t.tokens),n=t.header?"th":"td";return(t.align?`<${n} align="${t.align}">`:`<${n}>`)+e+`</${n}>
`}strong({tokens:t}){return`<strong>${this.parser.parseInline(t)}</strong>`}em({tokens:t}){return`<em>${this.parser.parseInline(t)}</em>`}codespan({text:t}){return`<code>${an(t,!0)}</code>`}br(t){return"<br>"}del({tokens:t}){return`<del>${this.parser.parseInline(t)}</del>`}link({href:t,title:e,text:n,tokens:s,autolink:o}){let i=o?an(n,!0):this.parser.parseInline(s),r=G0(t);if(r===null)return i;t=an(r,o);let l='<a href="'+t+'"';return e&&(l+=' title="'+an(e)+'"'),l+=">"+i+"</a>",l}image({href:t,title:e,text:n,tokens:s}){s&&(n=this.parser.parseInline(s,this.parser.textRenderer));let o=G0(t);if(o===null)return an(n);t=o;let i=`<img src="${an(t)}" alt="${an(n)}"`;return e&&(i+=` title="${an(e)}"`),i+=">",i}text(t){return"tokens"in t&&t.tokens?this.parser.parseInline(t.tokens):"escaped"in t&&t.escaped?t.text:an(t.text)}},_d=class{parser;strong({text:t,tokens:e}){return e?this.parser.parseInline(e,this):t}em({text:t,tokens:e}){return e?this.parser.parseInline(e,this):t}codespan({text:t}){return t}del({text:t,tokens:e}){return e?this.parser.parseInline(e,this):t}html({text:t}){return t}text({text:t}){return t}link({text:t,tokens:e}){return e?this.parser.parseInline(e,this):t}image({text:t,tokens:e}){return e?this.parser.parseInline(e,this):t}br(){return`
`}checkbox({raw:t}){return t}},Bn=class dd{options;renderer;textRenderer;constructor(e){this.options=e||Oo,this.options.renderer=this.options.renderer||new pc,this.renderer=this.options.renderer,this.renderer.options=this.options,this.renderer.parser=this,this.textRenderer=new _d,this.textRenderer.parser=this}static parse(e,n){return new dd(n).parse(e)}static parseInline(e,n){return new dd(n).parseInline(e)}parse(e){this.renderer.parser=this;let n="";for(let s=0;s<e.length;s++){let o=e[s];if(this.options.extensions?.renderers?.[o.type]){let r=o,l=this.options.extensions.renderers[r.type].call({parser:this},r);if(l!==!1||!["space","hr","heading","code","table","blockquote","list","checkbox","html","def","paragraph","text"].includes(r.type)){n+=l===!1?"":l??"";continue}}let i=o;switch(i.type){case"space":{n+=this.renderer.space(i);break}case"hr":{n+=this.renderer.hr(i);break}case"heading":{n+=this.renderer.heading(i);break}case"code":{n+=this.renderer.code(i);break}case"table":{n+=this.renderer.table(i);break}case"blockquote":{n+=this.renderer.blockquote(i);break}case"list":{n+=this.renderer.list(i);break}case"checkbox":{n+=this.renderer.checkbox(i);break}case"html":{n+=this.renderer.html(i);break}case"def":{n+=this.renderer.def(i);break}case"paragraph":{n+=this.renderer.paragraph(i);break}case"text":{n+=this.renderer.text(i);break}default:{let r='Token with "'+i.type+'" type was not found.';if(this.options.silent)return console.error(r),"";throw new Error(r)}}}return n}parseInline(e,n=this.renderer){this.renderer.parser=this;let s="";for(let o=0;o<e.length;o++){let i=e[o];if(this.options.extensions?.renderers?.[i.type]){let l=this.options.extensions.renderers[i.type].call({parser:this},i);if(l!==!1||!["escape","html","link","image","checkbox","strong","em","codespan","br","del","text"].includes(i.type)){s+=l===!1?"":l??"";continue}}let r=i;switch(r.type){case"escape":{s+=n.text(r);break}case"html":{s+=n.html(r);break}case"link":{s+=n.link(r);break}case"image":{s+=n.image(r);break}case"checkbox":{s+=n.checkbox(r);break}case"strong":{s+=n.strong(r);break}case"em":{s+=n.em(r);break}case"codespan":{s+=n.codespan(r);break}case"br":{s+=n.br(r);break}case"del":{s+=n.del(r);break}case"text":{s+=n.text(r);break}default:{let l='Token with "'+r.type+'" type was not found.';if(this.options.silent)return console.error(l),"";throw new Error(l)}}}return s}},Kr=class{options;block;constructor(t){this.options=t||Oo}static passThroughHooks=new Set(["preprocess","postprocess","processAllTokens","emStrongMask"]);static passThroughHooksRespectAsync=new Set(["preprocess","postprocess","processAllTokens"]);preprocess(t){return t}postprocess(t){return t}processAllTokens(t){return t}emStrongMask(t){return t}provideLexer(t=this.block){return t?cn.lex:cn.lexInline}provideParser(t=this.block){return t?Bn.parse:Bn.parseInline}};function Hs(t,e){if(Array.isArray(e))for(let n=0;n<e.length;n++)t.push(e[n]);else t.push(e)}var yA=class{defaults=pd();options=this.setOptions;parse=this.parseMarkdown(!0);parseInline=this.parseMarkdown(!1);Parser=Bn;Renderer=pc;TextRenderer=_d;Lexer=cn;Tokenizer=Co;Hooks=Kr;constructor(...t){this.use(...t)}walkTokens(t,e){let n=[];for(let s of t)switch(Hs(n,e.call(this,s)),s.type){case"table":{let o=s;for(let i of o.header)Hs(n,this.walkTokens(i.tokens,e));for(let i of o.rows)for(let r of i)Hs(n,this.walkTokens(r.tokens,e));break}case"list":{let o=s;Hs(n,this.walkTokens(o.items,e));break}default:{let o=s;this.defaults.extensions?.childTokens?.[o.type]?this.defaults.extensions.childTokens[o.type].forEach(i=>{let r=o[i].flat(1/0);Hs(n,this.walkTokens(r,e))}):o.tokens&&Hs(n,this.walkTokens(o.tokens,e))}}return n}use(...t){let e=this.defaults.extensions||{renderers:Object.create(null),childTokens:Object.create(null)};return t.forEach(n=>{let s={...n};if(s.async=this.defaults.async||s.async||!1,n.extensions&&(n.extensions.forEach(o=>{if(!o.name)throw new Error("extension name required");if("renderer"in o){let i=e.renderers[o.name];i?e.renderers[o.name]=function(...r){let l=o.renderer.apply(this,r);return l===!1&&(l=i.apply(this,r)),l}:e.renderers[o.name]=o.renderer}if("tokenizer"in o){if(!o.level||o.level!=="block"&&o.level!=="inline")throw new Error("extension level must be 'block' or 'inline'");let i=e[o.level];i?i.unshift(o.tokenizer):e[o.level]=[o.tokenizer],o.start&&(o.level==="block"?e.startBlock?e.startBlock.push(o.start):e.startBlock=[o.start]:o.level==="inline"&&(e.startInline?e.startInline.push(o.start):e.startInline=[o.start]))}"childTokens"in o&&o.childTokens&&(e.childTokens[o.name]=o.childTokens)}),s.extensions=e),n.renderer){let o=this.defaults.renderer||new pc(this.defaults);for(let i in n.renderer){if(!(i in o))throw new Error(`renderer '${i}' does not exist`);if(["options","parser"].includes(i))continue;let r=i,l=n.renderer[r],a=o[r];o[r]=(...u)=>{let f=l.apply(o,u);return f===!1&&(f=a.apply(o,u)),f===!1?"":f??""}}s.renderer=o}if(n.tokenizer){let o=this.defaults.tokenizer||new Co(this.defaults);for(let i in n.tokenizer){if(!(i in o))throw new Error(`tokenizer '${i}' does not exist`);if(["options","rules","lexer"].includes(i))continue;let r=i,l=n.tokenizer[r],a=o[r];o[r]=(...u)=>{let f=l.apply(o,u);return f===!1&&(f=a.apply(o,u)),f}}s.tokenizer=o}if(n.hooks){let o=this.defaults.hooks||new Kr;for(let i in n.hooks){if(!(i in o))throw new Error(`hook '${i}' does not exist`);if(["options","block"].includes(i))continue;let r=i,l=n.hooks[r],a=o[r];Kr.passThroughHooks.has(i)?o[r]=u=>{if(o.options.async&&Kr.passThroughHooksRespectAsync.has(i))return(async()=>{let d=await l.call(o,u);return a.call(o,d)})();let f=l.call(o,u);return a.call(o,f)}:o[r]=(...u)=>{if(o.options.async)return(async()=>{let d=await l.apply(o,u);return d===!1&&(d=await a.apply(o,u)),d})();let f=l.apply(o,u);return f===!1&&(f=a.apply(o,u)),f}}s.hooks=o}if(n.walkTokens){let o=this.defaults.walkTokens,i=n.walkTokens;s.walkTokens=function(r){let l=[];return Hs(l,i.call(this,r)),o&&Hs(l,o.call(this,r)),l}}this.defaults={...this.defaults,...s}}),this}setOptions(t){return this.defaults={...this.defaults,...t},this}lexer(t,e){return cn.lex(t,e??this.defaults)}parser(t,e){return Bn.parse(t,e??this.defaults)}parseMarkdown(t){return(e,n)=>{let s={...n},o={...this.defaults,...s},i=this.onError(!!o.silent,!!o.async);if(this.defaults.async===!0&&s.async===!1)return i(new Error("marked(): The async option was set to true by an extension. Remove async: false from the parse options object to return a Promise."));if(typeof e>"u"||e===null)return i(new Error("marked(): input parameter is undefined or null"));if(typeof e!="string")return i(new Error("marked(): input parameter is of type "+Object.prototype.toString.call(e)+", string expected"));if(o.hooks&&(o.hooks.options=o,o.hooks.block=t),o.async)return(async()=>{let r=o.hooks?await o.hooks.preprocess(e):e,l=await(o.hooks?await o.hooks.provideLexer(t):t?cn.lex:cn.lexInline)(r,o),a=o.hooks?await o.hooks.processAllTokens(l):l;o.walkTokens&&await Promise.all(this.walkTokens(a,o.walkTokens));let u=await(o.hooks?await o.hooks.provideParser(t):t?Bn.parse:Bn.parseInline)(a,o);return o.hooks?await o.hooks.postprocess(u):u})().catch(i);try{o.hooks&&(e=o.hooks.preprocess(e));let r=(o.hooks?o.hooks.provideLexer(t):t?cn.lex:cn.lexInline)(e,o);o.hooks&&(r=o.hooks.processAllTokens(r)),o.walkTokens&&this.walkTokens(r,o.walkTokens);let l=(o.hooks?o.hooks.provideParser(t):t?Bn.parse:Bn.parseInline)(r,o);return o.hooks&&(l=o.hooks.postprocess(l)),l}catch(r){return i(r)}}}onError(t,e){return n=>{if(n.message+=`
Please report this to https://github.com/markedjs/marked.`,t){let s="<p>An error occurred:</p><pre>"+an(n.message+"",!0)+"</pre>";return e?Promise.resolve(s):s}if(e)return Promise.reject(n);throw n}}},To=new yA;function je(t,e){return To.parse(t,e)}je.options=je.setOptions=function(t){return To.setOptions(t),je.defaults=To.defaults,Q0(je.defaults),je};je.getDefaults=pd;je.defaults=Oo;function _A(...t){return To.use(...t),je.defaults=To.defaults,Q0(je.defaults),je}je.use=_A;je.walkTokens=function(t,e){return To.walkTokens(t,e)};je.parseInline=To.parseInline;je.Parser=Bn;je.parser=Bn.parse;je.Renderer=pc;je.TextRenderer=_d;je.Lexer=cn;je.lexer=cn.lex;je.Tokenizer=Co;je.Hooks=Kr;je.parse=je;var Sq=je.options,Eq=je.setOptions,Cq=je.walkTokens,Tq=je.parseInline;var Oq=Bn.parse,Aq=cn.lex;var kA={gfm:!0,breaks:!1},kd=2e5,xA=5e4,SA=1e4,EA=100,ub=40,CA=1/6,TA=2e3,OA=/^ {0,3}(`{3,}|~{3,})/;function AA(t){return t.length>kd?[zi(t)]:RA(t.replace(/\r\n?/g,`
`)).map(e=>MA(e)?e:zi(e.raw))}var MA=t=>(t.type==="code"||t.raw.length<=xA)&&!db(t,EA);function db({tokens:t=[],items:e=[],header:n=[],rows:s=[]},o){return o===0||[t,e,n,...s].flat().some(i=>db(i,o-1))}function RA(t){let e=new cn(kA);try{e.blockTokens(t,e.tokens);for(let{src:n,tokens:s}of e.inlineQueue)n.length>SA?s.push({type:"text",raw:n,text:n,literal:!0}):e.inlineTokens(n,s);return[...e.tokens]}catch{return[zi(t)]}}var zi=t=>({type:"plain",raw:t,text:t}),hc=class{groups=[];tail=[];#e=[];#t=null;#n=!1;#s=0;#o=0;#i=0;#l;#r=!1;#a=!1;constructor(e=null){this.#l=e}update(e,n,s=performance.now()){if(e===this.#t&&n===this.#n)return 0;if(this.#r)return 1/0;let o=this.#i+this.#o/CA-s;return!n&&o>0?o:(this.#c(e,n),this.#i=s,0)}spent(e){this.#o=e}#c(e,n){let s=n||e.length>kd,o=this.#t===null,i=!s&&!o&&!this.#n&&e.startsWith(this.#t);this.#t=e,this.#n=n,i||(this.#a=!1);let r=i?this.#s:0,l=s?e:IA(e.slice(r)).replace(/\r\n?/g,`
`),a=s?null:NA(l);a?this.#u(a,l,r):this.#a?this.#u([zi(l)],l,r):!this.#l||l.length<=TA||e.length>kd?this.#u(AA(l),l,r):(o&&(this.tail=[zi(l)]),this.#f(l,r))}#f(e,n){this.#r=!0,this.#l(e,s=>{this.#r=!1,this.#a=s===null,this.#u(s??[zi(e)],e,n)})}#u(e,n,s){s===0&&(this.groups=[],this.#e=[],this.#s=0);let o=[...e],i=this.#n?o.length:DA(o),r=o.slice(i).map(({raw:l})=>l).join("");i>0&&n.endsWith(r)&&this.#t.endsWith(r)&&(this.#s=this.#t.length-r.length,this.#d(o.splice(0,i))),this.tail=[...this.#e,...o]}#d(e){for(this.#e=[...this.#e,...e];this.#e.length>=ub;)this.groups=[...this.groups,this.#e.splice(0,ub)]}},LA=new TextEncoder,PA=new TextDecoder("utf-8",{ignoreBOM:!0}),IA=t=>PA.decode(LA.encode(t));function DA(t){let e=2,n=t.length;for(;n>0&&e>0;)n-=1,t[n].type!=="space"&&(e-=1);return n}function NA(t){let e=t.indexOf(`
`),[n,s]=OA.exec(t)??[];if(!n||e<0)return null;let o=t.slice(n.length,e).trim(),i=new RegExp(`^ {0,3}${s[0]}{${s.length},}[ \\t]*$`,"m"),r=t.slice(e+1);return o.includes("`")||i.test(r)?null:[{type:"code",raw:t,lang:o.split(/\s/,1)[0],text:r.replace(/\n$/,""),isOpen:!0}]}function pb(t){try{let{protocol:e}=new URL(t);return["http:","https:","mailto:"].includes(e)}catch{return!1}}var fb={amp:"&",lt:"<",gt:">",quot:'"',apos:"'",nbsp:" ",copy:"©",reg:"®",trade:"™",deg:"°",hellip:"…",mdash:"—",ndash:"–",lsquo:"‘",rsquo:"’",ldquo:"“",rdquo:"”",bull:"•",middot:"·",times:"×",divide:"÷",plusmn:"±",larr:"←",rarr:"→",uarr:"↑",darr:"↓",le:"≤",ge:"≥",ne:"≠",euro:"€",pound:"£",sect:"§",para:"¶",laquo:"«",raquo:"»",frac12:"½",infin:"∞",micro:"µ"},FA=/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z][a-zA-Z0-9]{1,30}));/g;function hb(t){return t.includes("&")?t.replace(FA,(e,n,s,o)=>{if(o)return Object.hasOwn(fb,o)?fb[o]:e;let i=n?Number(n):parseInt(s,16);return i===0||i>1114111||i>=55296&&i<=57343?"�":String.fromCodePoint(i)}):t}var zA=150,Wi=new Map,WA=new hi,xd=new WeakMap;function Vs({id:t,text:e,isWhole:n}){let[,s]=M(0),{markdown:o,arrived:i}=BA(t);i.value;let r=performance.now(),l=o.update(e,n);pe(()=>{l===0&&o.spent(performance.now()-r)}),O(()=>{if(l===0||l===1/0)return;let f=setTimeout(()=>s(d=>d+1),l);return()=>clearTimeout(f)});let{groups:a,tail:u}=o;return c`<div class="prose" dir="auto">
    ${a.map((f,d)=>$b(f,()=>c`<div key=${d} class="prose-group">${f.map(mb)}</div>`))}
    <div key="tail" class="prose-group">${u.map(mb)}</div>
  </div>`}function BA(t){let e=Wi.get(t)??qA();return Wi.delete(t),Wi.set(t,e),Wi.size>zA&&Wi.delete(Wi.keys().next().value),e}function qA(){let t=C(0),e=async(n,s)=>{s(await WA.run("blocks",n)),t.value+=1};return{markdown:new hc(e),arrived:t}}function $b(t,e){return xd.has(t)||xd.set(t,e()),xd.get(t)}var mb=t=>$b(t,()=>bb[t.type]?.(t)??null),vb=t=>t.map(e=>bb[e.type]?.(e)??wb(e)),Gs=t=>t.map(wb),bb={space:()=>null,heading:({depth:t,tokens:e})=>Jn(`h${Math.min(6,t+2)}`,{dir:"auto"},Gs(e)),paragraph:({tokens:t})=>c`<p dir="auto">${Gs(t)}</p>`,blockquote:({tokens:t})=>c`<blockquote>${vb(t)}</blockquote>`,hr:()=>c`<hr />`,list:UA,table:jA,code:({text:t,lang:e,isOpen:n})=>c`<${gi} text=${t} language=${(e??"").split(/\s/)[0]} isOpen=${n} />`,html:({text:t})=>c`<p class="as-is">${ue(t.trimEnd())}</p>`,plain:({text:t})=>Ws(ue(t)).map((e,n)=>c`<div key=${n} class="as-is block">${e}</div>`)};function UA({ordered:t,start:e,items:n}){let s=n.map(({task:o,checked:i,tokens:r},l)=>{let a=c`<input type="checkbox" disabled checked=${i} aria-label=${i?"done":"to do"} />`;return c`<li key=${l} class=${o?"task":""} dir="auto">
      ${o&&a}${vb(r.filter(({type:u})=>u!=="checkbox"))}
    </li>`});return t?c`<ol start=${Number(e)||1}>${s}</ol>`:c`<ul>${s}</ul>`}function jA({header:t,rows:e}){let n=(s,{tokens:o,align:i})=>Jn(s,{class:i?`align-${i}`:""},Gs(o));return c`<div class="scroll-x" tabindex="0" role="region" aria-label="Table">
    <table>
      <thead>
        <tr>${t.map(s=>n("th",s))}</tr>
      </thead>
      <tbody>${e.map(s=>c`<tr>${s.map(o=>n("td",o))}</tr>`)}</tbody>
    </table>
  </div>`}var HA={strong:({tokens:t})=>c`<strong>${Gs(t)}</strong>`,em:({tokens:t})=>c`<em>${Gs(t)}</em>`,del:({tokens:t})=>c`<del>${Gs(t)}</del>`,codespan:({text:t})=>c`<code>${ue(t)}</code>`,br:()=>c`<br />`,link:({href:t,tokens:e})=>gb(t,Gs(e)),image:({href:t,text:e})=>gb(t,`image: ${e?`${L(e)} `:""}(${L(t)})`),escape:({text:t})=>ue(t),checkbox:()=>null};function gb(t,e){let n=L(t);return pb(t)?c`<a href=${t} title=${n} target="_blank" rel="noreferrer noopener">${e}</a>`:c`<span>${e} <span class="dim">(${n})</span></span>`}function wb(t){let e=HA[t.type];return e?e(t):t.type==="text"&&t.tokens?Gs(t.tokens):ue(t.type==="text"&&!t.literal?hb(t.text):t.text??t.raw)}function Sd({round:t,state:e,history:n}){if(t.status==="running")return c`<${GA} round=${t} state=${e} />`;let s=n.failures.value.get(t.round)??[];return c`<div class="cx-round-body">
    <${VA} round=${t} history=${n} />
    <${ZA} failures=${s} />
    ${t.error&&s.length===0&&c`<p class="cx-bad-text">${L(t.error.code)}: ${ue(t.error.detail)}</p>`}
    ${t.summary&&c`<${JA} round=${t} state=${e} history=${n} />`}
    ${n.latest.value===t.round&&c`<${QA} round=${t} state=${e} />`}
  </div>`}function GA({round:t,state:e}){let n=we(!1),s=e.session.value?.status!=="idle",o=async()=>{await Me(I(e.id,"cancel")),ve("Cancelled.")};return c`<div class="cx-round-body cx-at-work">
    <progress aria-label="Compaction ${t.round} is running"></progress>
    <p>
      Compacting ${x(t.tokens_before)} tokens… (${_s[t.reason]??t.reason}; policy
      ${" "}${t.policy}). You can still send messages.
    </p>
    ${s?c`<button onClick=${()=>n.value=!0}>Cancel</button>`:c`<${q} onClick=${o}>Cancel<//>`}
    ${n.value&&c`<${nn}
      title="Cancel run?"
      text="The compaction is cancelled together with the current run. You can resume the run later."
      verb="Cancel run"
      dismiss="Keep running"
      onConfirm=${o}
      onClose=${()=>n.value=!1}
    />`}
  </div>`}function VA({round:t,history:e}){let{usage:n}=t,s=e.reverts.value.get(t.round),o=Dn(n)+n.output_tokens>0,i=[["When",ze(t.created_at)],["Why",_s[t.reason]??t.reason],["Policy",t.policy],["How",t.rung&&(Pi[t.rung]??t.rung)],["Tokens",t.tokens_after!=null&&KA(t)],["Messages compacted",t.status!=="discarded"&&x(t.messages_compacted)],["Outputs cleared",t.outputs_pruned>0&&x(t.outputs_pruned)],["Cost",o?jr(n):"$0, no model call"],["Tokens read",o&&YA(n)],["Tokens written",o&&x(n.output_tokens)],["Took",t.duration_ms>0&&_e(t.duration_ms)],["Reverted",s&&ze(s.at)]];return c`<dl class="cx-facts numbers">
    ${i.filter(([,r])=>r).map(([r,l])=>c`<div key=${r}><dt>${r}</dt><dd>${l}</dd></div>`)}
  </dl>`}function KA(t){return`${x(t.tokens_before)} → ${x(t.tokens_after)} (${Fe(Bs(t))} less)`}function YA(t){return`${x(Dn(t))}, ${Fe(xn(t))} from the cache`}function ZA({failures:t}){return t.length===0?null:c`<ul class="cx-failures">
    ${t.map(({seq:e,rung:n,code:s,detail:o,next:i})=>c`<li key=${e}>
        <b>${Pi[n]??n}</b> failed (${L(s)}: ${L(o)});
        ${" "}${i?c`next: ${Pi[i]??i}.`:"nothing left to try."}
      </li>`)}
  </ul>`}function JA({round:t,state:e,history:n}){let s=t.status==="completed";return c`<div class="cx-sides">
    <section aria-label="Summary of compaction ${t.round}">
      <h4>Summary</h4>
      <div class="cx-summary" tabindex="0" role="region" aria-label="Summary">
        <${Vs} id="round-${t.round}-${e.id}" text=${t.summary} isWhole=${!0} />
      </div>
    </section>
    <section aria-label="Messages replaced by compaction ${t.round}">
      <h4>${s?"Replaces":"Replaced"} ${x(t.messages_compacted)} messages</h4>
      <${Di} state=${e} history=${n} range=${t} total=${t.messages_compacted}
        isKept=${o=>s&&o.round===null&&!o.voided_at&&!o.is_summary} />
    </section>
  </div>`}function QA({round:t,state:e}){let n=we(!1),s=t.tokens_before-t.tokens_after,o=async()=>{await Vt(I(e.id,"compactions",String(t.round))),ve(`Compaction ${t.round} reverted.`)};return c`<p>
      <button class="danger" onClick=${()=>n.value=!0}>Revert compaction ${t.round}</button>
    </p>
    ${n.value&&c`<${nn}
      title="Revert compaction ${t.round}?"
      text="The model will see the summarized messages again, about ${x(s)} more tokens. If that is too much,
        the next step compacts again. Later messages stay."
      verb="Revert"
      onConfirm=${o}
      onClose=${()=>n.value=!1}
    />`}`}var Ed=12;function yb({state:t,history:e}){let n=P(null),{value:s}=e.selected,o=s?.key,i=e.rounds.value.find(a=>`round-${a.round}`===o),r=e.prunes.value.find(a=>`prune-${a.seq}`===o);O(()=>n.current?.focus(),[s]);let l=()=>e.selected.value=null;return!i&&!r?null:c`<section class="cx-selected" aria-label="Selected in the chart">
    <header>
      <h3 ref=${n} tabindex="-1">${i?`Compaction ${i.round}`:`${Hr(r)} cleared`}</h3>
      <button type="button" class="plain" aria-label="Close" onClick=${l}>×</button>
    </header>
    ${i?c`<${Sd} round=${i} state=${t} history=${e} />`:c`<${Sb} prune=${r} state=${t} />`}
  </section>`}function _b({state:t,history:e}){let n=we(Ed),s=[...e.rounds.value.map(r=>({key:`round-${r.round}`,time:r.created_at,round:r})),...e.prunes.value.map(r=>({key:`prune-${r.seq}`,time:r.at,prune:r}))].sort((r,l)=>Date.parse(l.time)-Date.parse(r.time));if(s.length===0)return c`<p class="dim">None yet: the model sees the full history.</p>`;let o=s.filter(({key:r},l)=>l<n.value||e.isOpen(r)),i=s.length-o.length;return c`<ol class="cx-rounds">
      ${o.map(({key:r,round:l,prune:a})=>l?c`<${XA} key=${r} id=${r} round=${l} state=${t} history=${e} />`:c`<${eM} key=${r} id=${r} prune=${a} state=${t} history=${e} />`)}
    </ol>
    ${i>0&&c`<button onClick=${()=>n.value+=Ed*4}>Show ${x(Math.min(i,Ed*4))} of ${x(i)}
      ${" "}earlier</button>`}`}function XA({id:t,round:e,state:n,history:s}){let o=s.isOpen(t),i=_s[e.reason]??e.reason;return c`<li class="cx-round" id=${t}>
    <h3>
      <button class="plain cx-round-head" aria-expanded=${o} onClick=${()=>s.toggle(t)}>
        <span class="cx-round-name"><${kb} text="◆" /> Compaction ${e.round}</span>
        <${xe} kind=${M0[e.status]??""}>${e.status}<//>
        <${xb} item=${e} />
        <span class="dim cx-round-why">${e.rung?`${Pi[e.rung]}; `:""}${i}</span>
        <span class="dim numbers">${tM(e)}</span>
        <span class="dim"><${Ot} time=${e.created_at} /></span>
      </button>
    </h3>
    ${(o||e.status==="running")&&c`<${Sd} round=${e} state=${n} history=${s} />`}
  </li>`}function eM({id:t,prune:e,state:n,history:s}){let o=s.isOpen(t);return c`<li class="cx-round" id=${t}>
    <h3>
      <button class="plain cx-round-head" aria-expanded=${o} onClick=${()=>s.toggle(t)}>
        <span class="cx-round-name"><${kb} text="○" /> ${Hr(e)} cleared</span>
        <${xb} item=${e} />
        <span class="dim cx-round-why">${rc[e.reason]??e.reason}</span>
        <span class="dim"><${Ot} time=${e.at} /></span>
      </button>
    </h3>
    ${o&&c`<${Sb} prune=${e} state=${n} />`}
  </li>`}function tM({status:t,usage:e,duration_ms:n}){return t==="running"?"":[e.cost_usd!==null&&nt(e.cost_usd),n>0&&_e(n)].filter(Boolean).join(", ")}function kb({text:t}){return c`<span class="cx-sign" aria-hidden="true">${t}</span>`}function xb({item:t}){let{tokens_before:e,tokens_after:n}=t;return n==null?c`<span class="numbers">${x(e)} tokens</span>`:c`<span class="numbers">${x(e)} → ${x(n)} (${Fe(Bs(t))} less)</span>`}function Sb({prune:t,state:e}){return c`<div class="cx-round-body">
    <p>
      ${x(t.tokens_saved)} tokens freed without a model call. A placeholder tells the model how to see each of
      them again.
    </p>
    <ul class="cx-cleared">
      ${t.call_ids.map((n,s)=>c`<li key=${n}>
          <code>${L(t.tools?.[s]??"")}</code> <code class="dim">${n}</code>
          ${" "}<${Ii} sessionId=${e.id} callId=${n} />
        </li>`)}
    </ul>
  </div>`}function Eb({state:t}){let e=wi(t);O(()=>e.watch(),[e]);let n=e.problem.value,s=e.progress.value;return c`<div class="context-view">
    ${n&&c`<${ge} problem=${n} onRetry=${()=>e.retry()} />`}
    <section aria-labelledby="context-steps">
      <h2 id="context-steps">Context over steps</h2>
      <p>
        Each step sends the conversation to the model; when it nears the usable limit, Palimpsest shortens what is sent,
        with a summary of older messages (◆) or without old outputs (○), and the line drops.
      </p>
      <${oM} state=${t} history=${e} />
      ${s!==null&&!n&&c`<${sM} loaded=${s} state=${t} />`}
      ${(s===null||s>0)&&c`<div class="cx-chart">
        <${L0} history=${e} onPick=${o=>nM(o,t,e)} />
        <${yb} state=${t} history=${e} />
      </div>`}
    </section>
    <section aria-labelledby="context-rounds">
      <h2 id="context-rounds">Compactions and cleared outputs</h2>
      <${I0} state=${t} history=${e} />
      <${_b} state=${t} history=${e} />
    </section>
    <section aria-labelledby="context-seen">
      <h2 id="context-seen" tabindex="-1">Model's view vs. full history</h2>
      <${W0} state=${t} history=${e} />
    </section>
  </div>`}function nM({mark:t,step:e},n,s){if(t){s.select(t.key);return}qa(n).choose(e.step);let o=document.getElementById("context-seen");o.scrollIntoView({block:"start"}),o.focus({preventScroll:!0})}function sM({loaded:t,state:e}){let n=Math.max(t,e.session.value?.steps??0);return c`<p class="dim" role="status">
    <progress max=${n||1} value=${t} aria-label="Steps loaded"></progress>
    ${" "}${x(t)} of ${x(n)} steps loaded
  </p>`}function oM({state:t,history:e}){let{compaction:n}=t.session.value,s=e.rounds.value.filter(({status:a})=>a==="completed"),o=e.prunes.value,i=[...s,...o].reduce((a,{tokens_before:u,tokens_after:f})=>a+u-f,0),r=s.at(-1)?.created_at,l=s.length+o.length===0;return c`<p class="dim numbers">
    Policy ${n.policy}${l?": no compactions yet.":""}
    ${!l&&c`: ${x(s.length)} ${s.length===1?"compaction":"compactions"}
      ${o.length>0&&`, outputs cleared ${x(o.length)} ${o.length===1?"time":"times"}`};
      ${" "}${x(i)} tokens freed in total. ${r?`Last compaction: ${ze(r)}.`:""}`}
  </p>`}var xs=ao(null);function Bi({id:t,head:e,kind:n="",children:s}){let o=ke(xs),i=o.of(t).value;return c`<div class="fold ${n}">
    <button type="button" class="fold-head" aria-expanded=${i} onClick=${()=>o.toggle(t)}>
      <${Xn} name=${i?"down":"right"} />${e}
    </button>
    ${i&&c`<div class="fold-body">${s()}</div>`}
  </div>`}var Cb={pending:"○",in_progress:"◐",completed:"●"},Tb={pending:"to do",in_progress:"in progress",completed:"done"};function Ob({state:t}){let e=t.plan.value;if(!e?.length)return null;let n=e.filter(({status:i})=>i==="completed").length,s=e.find(({status:i})=>i==="in_progress"),o=c`<span>Plan</span> <span class="dim numbers">${n} of ${e.length} done</span>
    ${s&&c`<span class="plan-current">${L(String(s.text))}</span>`}`;return c`<section class="plan" aria-label="Plan">
    <${xs.Provider} value=${t.transcript.reading.planFolds}>
      <${Bi} id="plan" head=${o}>
        ${()=>c`<ol class="plan-items">
          ${e.map((i,r)=>c`<${iM} key=${r} item=${i} />`)}
        </ol>`}
      <//>
    <//>
  </section>`}function iM({item:{text:t,status:e="pending"}}){return c`<li class=${e}>
    <span aria-hidden="true">${Cb[e]??Cb.pending}</span>
    <span>${L(String(t))}<span class="hidden">, ${Tb[e]??Tb.pending}</span></span>
  </li>`}var rM=10;function Ab({state:t}){O(()=>{g$(t).catch(()=>{})},[t]);let e=pf(t).value;if(!e)return null;let{status:n,outcome:s}=t.session.value,o=n==="idle"&&s==="failed"&&e.status==="failed";return c`<div class="source-line ${e.status}">
    <p role="status">${lM(e,n)}</p>
    ${o&&c`<${q} onClick=${()=>Me(I(t.id,"resume"))}>Retry<//>`}
  </div>`}function lM({status:t,url:e="the repository",ref:n,commit:s,detail:o},i){let r=c`<code>${L(e)}</code>${n&&c`, <code>${L(n)}</code>`}`;return t==="failed"?c`Could not clone ${r}: ${L(o)}`:t==="cloned"?c`Cloned ${r} at <code title=${s}>${s.slice(0,rM)}</code>`:i==="idle"?c`Stopped cloning ${r}`:c`Cloning ${r}…`}var aM=409,mc=new Map;function cM(t){return mc.has(t)||mc.set(t,C("")),mc.get(t)}function Mb({state:t}){let e=t.clientCalls.value,n=P(null),{decidedHere:s}=Xu(e,n),o=async(i,r)=>{s.add(i);try{await Me(I(t.id,"tool-calls",i,"result"),r)}catch(l){if(l.status!==aM)throw s.delete(i),l;ve("This call already has a result.")}mc.delete(i),ka(t,i)};return c`<p class="hidden" role="status">${uM(e)}</p>
    <section class="approvals" aria-label="Calls of client tools" ref=${n} hidden=${e.length===0}>
      ${e.map(i=>c`<${fM} key=${i.call_id} call=${i} resolve=${o} />`)}
    </section>`}var uM=t=>t.length?`Waiting for results: ${t.map(({name:e})=>Bt(e)).join(", ")}.`:"";function fM({call:t,resolve:e}){let{call_id:n,name:s,arguments:o,expires_at:i}=t,r=le(),l=cM(n),a=!l.value.trim();return c`<article class="approval" aria-labelledby=${r} data-call-id=${n}>
    <header>
      <h2 id=${r} tabindex="-1">Result of <code>${Bt(s)}</code></h2>
      ${i&&c`<${ef} until=${Date.parse(i)} verb="times out" end="timed out" />`}
    </header>
    <p class="dim">A client carries out this call and posts its result. You can post it here instead.</p>
    <${vi} name=${s} args=${o} />
    <div class="field">
      <label for="${r}-text">Result (shown to the model)</label>
      <textarea
        id="${r}-text"
        rows="2"
        value=${l.value}
        onInput=${({currentTarget:u})=>l.value=u.value}
      ></textarea>
    </div>
    <footer>
      <${q} kind="primary" onClick=${()=>e(n,{output:l.value})}>Post result<//>
      <${q} kind="danger" disabled=${a} onClick=${()=>e(n,{error:l.value})}>
        Post as error
      <//>
    </footer>
  </article>`}function gc(t,e){pe(()=>{let{style:n}=t.current;n.height="auto",n.height=`${t.current.scrollHeight+t.current.offsetHeight-t.current.clientHeight}px`},[e])}var Qr={steer:"Steer",follow_up:"Follow-up",interrupt:"Interrupt"},Rb=t=>Qr[t]??t,dM={awaiting_approval:"decided",awaiting_client:"resolved"};function $c(t,{status:e,compaction:n}){if(e==="idle")return"Starts a run";let s=dM[e];return t==="steer"?s?`Delivered once the calls above are ${s}`:"Delivered before the next step":t==="follow_up"?"Starts its own run after this one":s?"Cancels the calls above; delivered at once":n?.in_progress?"Ends the step once the compaction is done":"Ends this step now and keeps its output"}var pM=300,Cd=new WeakMap,Td=new Set;addEventListener("pagehide",()=>{for(let t of Td)t.store()});function vc(t){return Cd.has(t)||Cd.set(t,new Od(t)),Cd.get(t)}function Lb(t,e){try{sessionStorage.setItem(Pb(t),JSON.stringify({text:e}))}catch{}}var Pb=t=>`palimpsest.draft.${t}`,Od=class{text=C("");attachments=new ii;mode=C("steer");sending=C(!1);failure=C(null);#e;#t=null;#n=null;constructor(e){this.#e=e,this.#a(),We(()=>this.#i(e.queue.value,e.transcript.order.value))}write(e){this.text.value=e,this.#c()}choose(e){this.mode.value=e,this.#c()}append(e){let n=this.text.value.trimEnd();this.write(n?`${n}

${e}`:e)}async send(){let e=this.attachments.items.value,n=this.text.value;if(this.sending.value||!n.trim()&&e.length===0)return;let s=this.#t=this.#s(n,e.map(({key:o})=>o));this.store(),this.sending.value=!0,this.failure.value=null;try{let o=await Il(n,e);await Me(I(this.#e.id,"queue"),{id:s.id,content:o,mode:this.mode.value}),this.#l(s),this.#e.transcript.followNewest().catch(()=>{})}catch(o){this.#t===s&&this.#o(o)}finally{this.sending.value=!1}}#s(e,n){let s=this.#t;return s?.content===e&&(s.images??[]).join()===n.join()?s:{id:oi(),content:e,images:n}}#o(e){e.code==="id_in_use"&&(this.#t=null),this.failure.value={problem:e,at:us()}}#i(e,n){let s=this.#t;s&&(e.some(({id:o})=>o===s.id)||n.includes(s.id))&&this.#l(s)}#l(e){this.#t===e&&(this.#t=null,me(()=>{let n=this.text.peek();n.startsWith(e.content)&&(this.text.value=n.slice(e.content.length).trimStart()),this.attachments.remove(...e.images??[]),this.mode.peek()==="interrupt"&&(this.mode.value="steer"),this.failure.value=null}),this.store())}get#r(){return Pb(this.#e.id)}#a(){try{let e=JSON.parse(sessionStorage.getItem(this.#r)??"{}");this.text.value=e.text??"",this.mode.value=e.mode??"steer",this.#t=e.attempt??null}catch{}}#c(){clearTimeout(this.#n),this.#n=setTimeout(()=>this.store(),pM),Td.add(this)}store(){clearTimeout(this.#n),Td.delete(this);let e={text:this.text.peek(),mode:this.mode.peek(),attempt:this.#t};try{e.text||e.attempt?sessionStorage.setItem(this.#r,JSON.stringify(e)):sessionStorage.removeItem(this.#r)}catch{}}};var Ib=1e6,Ad=matchMedia("(pointer: coarse)");function Db({state:t,children:e}){let n=vc(t),s=n.text.value,{attachments:o}=n,i=!s.trim()&&o.items.value.length===0,r=P(null);gc(r,s);let l=le(),{isOver:a,...u}=Vl(({dataTransfer:k})=>o.add([...k.files])),f=async()=>{await n.send(),r.current?.focus()},d=k=>{k.key!=="Enter"||k.isComposing||k.keyCode===229||k.shiftKey||k.altKey||Ad.matches&&!k.ctrlKey&&!k.metaKey||(k.preventDefault(),f())},h=n.sending.value,g=s.length>Ib,v=g?`A message can have at most ${x(Ib)} characters; this one has ${x(s.length)}.`:$c(n.mode.value,t.session.value);return c`<form
    class="composer ${a?"drop-target":""}"
    aria-label="Send a message"
    onSubmit=${k=>{k.preventDefault(),f()}}
    ...${u}
  >
    <${mM} draft=${n} />
    <label class="hidden" for="${l}-text">Message</label>
    <textarea
      ref=${r}
      id="${l}-text"
      rows="1"
      placeholder=${`Message the agent${Ad.matches?"":" · Shift+Enter: new line"}`}
      value=${s}
      aria-describedby="${l}-hint"
      enterkeyhint=${Ad.matches?"enter":"send"}
      onInput=${k=>n.write(k.target.value)}
      onKeyDown=${d}
      onPaste=${Gl(o)}
    ></textarea>
    <${Hl} attachments=${o} />
    <div class="composer-foot">
      ${t.session.value.status!=="idle"&&c`<${hM} draft=${n} name="${l}-mode" />`}
      <p class="dim" id="${l}-hint" title=${v}>${v}</p>
      ${e}
      <${jl} attachments=${o} isBrief=${!0} />
      <button type="submit" class="primary" disabled=${h||g||i} aria-busy=${h}>
        ${h?"Sending…":"Send"}
      </button>
    </div>
  </form>`}function hM({draft:t,name:e}){return c`<fieldset class="segments">
    <legend class="hidden">How the message is delivered</legend>
    ${Object.entries(Qr).map(([n,s])=>c`<label key=${n}>
        <input
          type="radio"
          name=${e}
          value=${n}
          checked=${t.mode.value===n}
          onChange=${()=>t.choose(n)}
        />
        <span>${s}</span>
      </label>`)}
  </fieldset>`}function mM({draft:t}){let e=t.failure.value;if(!e)return null;let{problem:n,at:s}=e,{retryAfterS:o}=n;return c`<div class="send-failure">
    <p role="alert">Not sent; your message is kept: ${n.message}</p>
    ${n.status===0&&c`<p>Safe to resend; it won't be duplicated</p>`}
    ${o!=null&&c`<p role="timer">${gM(s+o*1e3-vn.value)}</p>`}
  </div>`}function gM(t){return t>0?`Try again in ${_e(Math.ceil(t/1e3)*1e3)}`:"You can try again now"}var Xr=512*1024,$M=4,Md=new WeakMap;function bc(t){return Md.has(t)||Md.set(t,new Rd(t.id)),Md.get(t)}var qn=t=>t.slice(0,Math.max(0,t.lastIndexOf("/"))),Ss=t=>t.slice(t.lastIndexOf("/")+1),Ld=(t,e)=>t?`${t}/${e}`:e,Rd=class{folders=C(new Map);expanded=C(new Set);refreshing=C(!1);file=C(null);uploads=C([]);#e;#t=new Map;#n=0;#s=!1;#o=0;constructor(e){this.#e=e}async load(e){let n=(this.#t.get(e)??0)+1;this.#t.set(e,n),this.#i(e,{loading:!0});try{let s=await W(`${I(this.#e,"files")}?${new URLSearchParams({path:e})}`);if(this.#t.get(e)!==n)return;let o=s.items.toSorted(bM);this.#i(e,{items:o,truncated:s.truncated,problem:null,loading:!1})}catch(s){this.#t.get(e)===n&&this.#i(e,{problem:s,loading:!1})}}#i(e,n){let s=this.folders.value.get(e)??{items:null,truncated:!1,problem:null};this.folders.value=new Map(this.folders.value).set(e,{...s,...n})}entry(e){return this.folders.value.get(qn(e))?.items?.find(n=>n.path===e)}async has(e){if(this.entry(e))return!0;let{items:n,truncated:s,problem:o}=this.folders.value.get(qn(e))??{};if(n&&!s&&!o)return!1;try{return await Wt("GET",ni(this.#e,e),{headers:{Range:"bytes=0-0"}}),!0}catch(i){return i.status!==404}}open(e){return this.expanded.value=new Set(this.expanded.value).add(e),this.load(e)}close(e){let n=new Set(this.expanded.value);n.delete(e),this.expanded.value=n}async refresh(){if(this.#s=!0,!this.refreshing.value){this.refreshing.value=!0;try{for(;this.#s;)this.#s=!1,await this.#l()}finally{this.refreshing.value=!1}}}async#l(){await this.load("");let e=[...this.expanded.value].filter(s=>this.#r(s)).sort(),n=async()=>{for(let s=e.shift();s!==void 0;s=e.shift())await this.load(s)};await Promise.all(Array.from({length:$M},n)),this.#a(),this.file.value&&await this.#c(this.file.value.path)}#r(e){let n=this.folders.value.get(qn(e));return!n?.items||n.items.some(s=>s.path===e&&s.type==="directory")}#a(){let e=n=>n===""||this.#r(n);me(()=>{this.expanded.value=new Set([...this.expanded.value].filter(e)),this.folders.value=new Map([...this.folders.value].filter(([n])=>e(n)))})}async show(e){this.file.value={path:e,loading:!0,problem:null,text:null,size:null},await this.#c(e)}hide(){this.#n+=1,this.file.value=null}async#c(e){let n=++this.#n,s;try{s={problem:null,...await this.#f(e)}}catch(a){s={problem:a,text:null,size:null}}if(this.#n!==n)return;let{text:o,size:i,problem:r}=this.file.value;(!(o===s.text&&i===s.size&&r?.code===s.problem?.code)||this.file.value.loading)&&(this.file.value={path:e,loading:!1,...s})}async#f(e){try{let n=this.entry(e)?.size===0?{}:{Range:`bytes=0-${Xr-1}`},s=await Wt("GET",ni(this.#e,e),{headers:n}),o=new Uint8Array(await s.arrayBuffer()),i=s.headers.get("Content-Range")?.split("/")[1],r=i?Number(i):o.length;return{size:r,text:wM(o.subarray(0,Xr),r>o.length)}}catch(n){if(n.status===416)return{size:0,text:""};throw n}}async upload(e,n){let s=e.map(o=>[o,this.#u(Ld(n,o.name))]);for(let[o,i]of s){let{path:r}=this.uploads.value.find(l=>l.id===i);try{await Ch(ni(this.#e,r),o,l=>this.#d(i,{share:l})),this.#d(i,{share:1,status:"done"})}catch(l){this.#d(i,{status:"failed",detail:l.message})}}await this.refresh()}#u(e){let n=++this.#o;return this.uploads.value=[...this.uploads.value,{id:n,path:e,share:0,status:"sending",detail:""}],n}#d(e,n){this.uploads.value=this.uploads.value.map(s=>s.id===e?{...s,...n}:s)}clearUploads(){this.uploads.value=this.uploads.value.filter(({status:e})=>e==="sending")}},vM=new Intl.Collator("en",{numeric:!0});function bM(t,e){let n=s=>s.type==="directory";return n(t)!==n(e)?n(t)?-1:1:vM.compare(Ss(t.path),Ss(e.path))}function wM(t,e){if(t.includes(0))return null;try{return new TextDecoder("utf-8",{fatal:!0}).decode(t,{stream:e})}catch{return null}}var yM=/^\[file in the workspace: (.+)\]$/gm;function Nb({state:t,text:e}){let n=[],s=0;for(let{0:o,1:i,index:r}of e.matchAll(yM))n.push({text:e.slice(s,r)},{path:i}),s=r+o.length;return n.push({text:e.slice(s)}),n.map((o,i)=>o.path?c`<${Fb} key=${i} state=${t} path=${o.path} />`:c`<${wc} key=${i} text=${o.text} />`)}function wc({text:t}){let e=Ws(ue(t.replace(/^\n|\n$/g,"")));return e.length===1&&e[0]===""?null:e.map((n,s)=>c`<div key=${s} class="as-is block" dir="auto">${n}</div>`)}function Fb({state:t,path:e}){return c`<p class="file-link">
    File: <a href=${be(t.id,"files")} onClick=${()=>{bc(t).show(e)}}>
      <code><bdi>${L(e)}</bdi></code>
    </a>
  </p>`}function zb({state:t,content:e}){return typeof e=="string"?ue(e):c`${e.map((n,s)=>n.type==="text"?c`<${wc} key=${s} text=${n.text} />`:n.type==="file"?c`<${Fb} key=${s} state=${t} path=${n.path} />`:null)}
    <${go} sessionId=${t.id} parts=${e} />`}var Pd=({type:t})=>t==="text",el=t=>typeof t!="string"&&!t.every(Pd);function yc(t){return typeof t=="string"?t:t.filter(Pd).map(({text:e})=>e).join(`

`)}var Wb=(t,e)=>e.trim()!==""||el(t);async function Bb(t,e,n){if(!el(e))return n;let s=e.filter(i=>!Pd(i)),o=await Promise.all(s.map(i=>_M(t,i)));return n.trim()?[{type:"text",text:n},...o]:o}async function _M(t,{type:e,path:n,digest:s,media_type:o}){if(e!=="image")return{type:e,path:n};let i=await Wt("GET",I(t,"images",s));return{type:e,media_type:o,data:await Pl(await i.blob())}}var qb=250,kM=200;function Ub({state:t}){let e=SM(t.queue.value),[n,s]=M(null),o=P(null),i=le(),r=P(null),l=xM(e,r),a=d=>s({...d,text:yc(d.content)}),u=()=>{o.current=n.id,s(null)},f=n&&!e.some(({id:d})=>d===n.id)?n:null;return e.length===0&&!f?null:c`<section class="queue" aria-labelledby=${i} ref=${r}>
    <h2 id=${i}>Pending messages <span class="dim">${e.length}</span></h2>
    <ol>
      ${e.map(d=>n?.id===d.id?c`<${OM} key=${d.id} ...${{state:t,item:d,editing:n,onChange:s,onClose:u}} />`:c`<${CM}
              key=${d.id}
              ...${{state:t,item:d,edited:o,withdrawing:l,onEdit:()=>a(d)}}
            />`)}
    </ol>
    ${f&&c`<${AM} state=${t} text=${f.text} onClose=${()=>s(null)} />`}
    <p class="dim">${EM(e,t.session.value)}</p>
  </section>`}function xM(t,e){let n=P(null),s=P([]);return O(()=>{let o=n.current,i=s.current.indexOf(o);if(s.current=t.map(l=>l.id),o===null||s.current.includes(o)||(n.current=null,document.activeElement!==document.body))return;let r=e.current?.querySelectorAll(".queue-text")??[];(r[Math.min(i,r.length-1)]??document.querySelector(".composer textarea"))?.focus()}),n}function SM(t){let e=P(new Map),[,n]=M(0),s=performance.now(),o=new Map(t.map(({id:l})=>[l,e.current.get(l)??s]));e.current=o;let i=({id:l})=>s-o.get(l)<qb,r=t.some(i);return O(()=>{if(!r)return;let l=setTimeout(()=>n(s),qb);return()=>clearTimeout(l)}),t.filter(l=>!i(l))}function EM(t,{status:e,outcome:n}){let s=e==="idle"&&n!=="completed",o=[];return s&&o.push("The run has ended","They'll be sent when you resume"),t.some(({mode:i})=>i==="follow_up")&&o.push("Follow-ups run last, one at a time"),o.join(". ")}function CM({state:t,item:e,edited:n,withdrawing:s,onEdit:o}){let[i,r]=M(!1),l=P(null);O(()=>{n.current===e.id&&(n.current=null,l.current.focus())},[]);let a=async()=>{s.current=e.id;try{await Vt(I(t.id,"queue",e.id))}catch(u){throw s.current=null,u}};return c`<li data-message-id=${e.id}>
    <${xe} kind=${e.mode==="interrupt"?"warn":""}>${Rb(e.mode)}<//>
    <div class="queue-text" tabindex="0" role="group" aria-label="Pending message">
      <${zb} state=${t} content=${e.content} />
    </div>
    <div class="queue-buttons">
      <button type="button" ref=${l} onClick=${o}>Edit</button>
      <${q} onClick=${()=>TM(e)?r(!0):a()}>Withdraw<//>
    </div>
    ${i&&c`<${nn}
      title="Withdraw this message?"
      text="It won't be delivered, and its content will be lost."
      verb="Withdraw"
      onConfirm=${a}
      onClose=${()=>r(!1)}
    />`}
  </li>`}var TM=({content:t})=>el(t)||yc(t).length>kM;function OM({state:t,item:e,editing:n,onChange:s,onClose:o}){let i=P(null),r=le();gc(i,n.text),O(()=>i.current.focus(),[]);async function l(){let u={};n.text!==yc(e.content)&&(u.content=await Bb(t.id,e.content,n.text)),n.mode!==e.mode&&(u.mode=n.mode),Object.keys(u).length&&await $n(I(t.id,"queue",e.id),u),o()}let a=u=>{u.key!=="Escape"||u.isComposing||(u.stopPropagation(),o())};return c`<li class="editing" data-message-id=${e.id} onKeyDown=${a}>
    <label class="hidden" for="${r}-text">Edited message</label>
    <textarea
      ref=${i}
      id="${r}-text"
      value=${n.text}
      onInput=${u=>s({...n,text:u.target.value})}
    ></textarea>
    ${el(e.content)&&c`<p class="dim">Images and files stay as they are.</p>`}
    <div class="queue-buttons">
      <label class="hidden" for="${r}-mode">Mode</label>
      <select
        id="${r}-mode"
        value=${n.mode}
        onChange=${u=>s({...n,mode:u.target.value})}
      >
        ${Object.entries(Qr).map(([u,f])=>c`<option key=${u} value=${u}>${f}</option>`)}
      </select>
      <${q} kind="primary" disabled=${!Wb(e.content,n.text)} onClick=${l}>Save<//>
      <button type="button" onClick=${o}>Cancel</button>
    </div>
    <p class="dim">${$c(n.mode,t.session.value)}</p>
  </li>`}function AM({state:t,text:e,onClose:n}){return c`<div class="overtaken" role="alert">
    <p>The message you were editing is no longer pending: it was delivered unchanged or withdrawn.</p>
    <button type="button" onClick=${()=>{vc(t).append(e),ve("Your text is in the message box."),n()}}>Move my text to the message box</button>
    <button type="button" onClick=${n}>Discard my text</button>
  </div>`}var MM={max_steps:{label:"Max steps per run",unit:"steps",whole:!0,ofRun:!0},max_seconds:{label:"Max seconds per run",unit:"seconds",ofRun:!0},max_tokens:{label:"Max total tokens",unit:"tokens",whole:!0},max_cost_usd:{label:"Max total cost ($)",unit:"US dollars"}},jb={failed:"The run failed.",cancelled:"The run was cancelled. Its output so far is kept.",interrupted:"The run was interrupted, for example by a server restart.",limit_reached:"The run reached a limit."};function Hb({state:t,session:e}){let{outcome:n,error:s}=e;if(!jb[n])return null;let o=n==="limit_reached"?MM[s?.code]:void 0,i=()=>Me(I(t.id,"resume")),r=o?`Resume with ${LM(s.code,e)}`:"Resume";return c`<section class="run-end ${n}" aria-label="How the last run ended">
    <p role="status">${RM(n,s,e)}</p>
    ${s&&n==="failed"&&c`<p class="dim">${L(String(s.code))}</p>`}
    <div class="run-end-ways">
      ${o&&c`<${PM} ...${{state:t,session:e,name:s.code,limit:o,onRaised:i}} />`}
      ${(!o||o.ofRun)&&c`<${q} kind=${o?"":"primary"} onClick=${i}>${r}<//>`}
    </div>
  </section>`}function RM(t,e,n){let s=n.limits;switch(t==="limit_reached"?e?.code:null){case"max_steps":return`Stopped at the ${x(e.limit??s.max_steps)}-step limit`;case"max_seconds":return`Stopped at the time limit of ${_e((e.limit??s.max_seconds)*1e3)}`;case"max_tokens":return`Stopped at the ${x(e.limit??s.max_tokens)}-token limit`;case"max_cost_usd":return`Stopped at the ${nt(e.limit??s.max_cost_usd)} cost limit`;default:return[jb[t],e?.detail&&L(e.detail)].filter(Boolean).join(" ")}}function LM(t,{limits:e}){return e[t]===null?"no limit":`another ${t==="max_seconds"?_e(e[t]*1e3):`${x(e[t])} steps`}`}function PM({state:t,session:e,name:n,limit:s,onRaised:o}){let i=le(),[r,l]=M(String((e.limits[n]??0)*2||"")),a=Number(r),u=r!==""&&a>0&&(!s.whole||Number.isInteger(a));async function f(){await $n(I(t.id),{limits:{[n]:a}}),await o()}return c`<div class="raise">
    <label for=${i}>${s.label}</label>
    <input
      id=${i}
      type="number"
      inputmode=${s.whole?"numeric":"decimal"}
      min="0"
      step=${s.whole?1:"any"}
      value=${r}
      onInput=${d=>l(d.target.value)}
    />
    <${q} kind="primary" disabled=${!u} onClick=${f}>Raise limit and resume<//>
  </div>`}function Gb({state:t}){let e=t.session.value,n=P(null);return DM(n),e?c`<section class="steering" aria-label="Steer this session" tabindex="-1" ref=${n}>
    <div class="steering-scroll">
      <${fa} state=${t} />
      <${Mb} state=${t} />
      <${Ub} state=${t} />
      <${zM} state=${t} />
      ${e.status==="idle"&&c`<${Hb} state=${t} session=${e} />`}
    </div>
    <${e.kind==="subagent"?IM:Db} state=${t}>
      ${e.status!=="idle"&&c`<${NM} key=${t.runs.value} state=${t} session=${e} />`}
    <//>
  </section>`:null}function IM({state:t,children:e}){return c`<div class="composer">
    <p>
      A sub-agent gets its task from <a href=${be(t.session.value.parent_id)}>its session</a>, and takes no
      messages.
    </p>
    ${e}
  </div>`}function DM(t){let e=t.current?.querySelector(".working, .run-end")?.contains(document.activeElement);pe(()=>{e&&document.activeElement===document.body&&t.current.focus({preventScroll:!0})})}function NM({state:t,session:e}){let[n,s]=M(!1),[o,i]=M(!1),r=t.queue.value.length,l=t.follower.value?.state.value==="offline",a=n?"Cancelling…":FM(e);async function u(){n||(await Me(I(t.id,"cancel"),{clear_queue:o&&r>0}),s(!0))}return c`<div class="working">
    <p role="status"><span class="pulse" aria-hidden="true"></span>${l&&"Last known: "}${a}</p>
    ${r>0&&c`<label class="check">
      <input type="checkbox" checked=${o} onChange=${f=>i(f.target.checked)} />
      and clear queue (${r})
    </label>`}
    <${q} kind="danger" ...${n&&{"aria-disabled":"true"}} onClick=${u}>Cancel run<//>
  </div>`}function FM({status:t,steps:e,compaction:n}){return t==="awaiting_approval"?"Waiting for you":t==="awaiting_client"?"Waiting for a client":n.in_progress?"Compacting the context":e?`Working, ${x(e)} ${e===1?"step":"steps"} done`:"Working"}function zM({state:t}){let e=t.retrying.value;if(!e)return null;let n=Math.max(0,e.until-vn.value);return c`<p class="retrying dim">
    Attempt ${e.attempt} failed: ${L(e.detail)}
    ${n>0?` Retrying in ${_e(Math.ceil(n/1e3)*1e3)}`:" Retrying now"}
  </p>`}var WM=/^\u001b\[([\d;:]*)m$/,_c=["gray","red","green","yellow","blue","magenta","cyan",null],Vb={1:"bold",2:"faint",3:"italic",4:"underline"},Kb={22:["bold","faint"],23:["italic"],24:["underline"]},BM=2e4;function tl(t){if(!t.includes("\x1B["))return{text:ue(t),tokens:[]};let e=[],[n,s,o]=["",{},0],i=l=>{let a=n.length;n+=ue(l);let u=qM(s);u&&n.length>a&&e.length<BM&&e.push({start:a,end:n.length,scope:u})},r=t.replace(/\r(?=(?:\u001b\[[\d;:]*m)*\n)/g,"");for(let{0:l,index:a}of r.matchAll(ru)){i(r.slice(o,a)),o=a+l.length;let[,u]=WM.exec(l)??[];u!==void 0&&(s=UM(s,u.split(/[;:]/).map(Number)))}return i(r.slice(o)),{text:n,tokens:e}}function qM({color:t,...e}){return[t,...Object.keys(e).filter(s=>e[s])].filter(Boolean).map(s=>`ansi-${s}`).join(" ")}function UM(t,e){let n=t;for(let s=0;s<e.length;s+=1){let o=e[s];if(o===0)n={};else if(Vb[o])n={...n,[Vb[o]]:!0};else if(Kb[o])n={...n,...Object.fromEntries(Kb[o].map(i=>[i,!1]))};else if(o===39)n={...n,color:null};else if(o>=30&&o<=37)n={...n,color:_c[o-30]};else if(o>=90&&o<=97)n={...n,color:_c[o-90]};else if(o===38||o===48){let i=e[s+1]===5,r=i?jM(e[s+2]):Yb(e.slice(s+2,s+5));o===38&&(n={...n,color:r}),s+=i?2:4}}return n}function jM(t){if(!(t<232))return"gray";if(t<16)return _c[t%8];let e=t-16;return Yb([Math.floor(e/36),Math.floor(e/6)%6,e%6].map(n=>n*51))}function Yb([t=0,e=0,n=0]){let[s,o]=[Math.min(t,e,n),Math.max(t,e,n)];if(o-s<48)return o>160?null:"gray";let i=r=>r>(s+o)/2?1:0;return _c[i(t)+2*i(e)+4*i(n)]}var Zb=10;function qi({count:t,height:e,row:n,box:s,onWidth:o,inner:i={},...r}){let l=P(null),a=s??l,[u,f]=M({top:0,height:0});pe(()=>{let _=a.current,k=()=>{f({top:_.scrollTop,height:_.clientHeight}),o?.(_.clientWidth)};k();let T=new ResizeObserver(k);return T.observe(_),_.addEventListener("scroll",k,{passive:!0}),()=>{T.disconnect(),_.removeEventListener("scroll",k)}},[]);let d=Math.max(0,Math.min(t,Math.floor(u.top/e))-Zb),h=Math.min(t,Math.ceil((u.top+u.height)/e)+Zb),g=Array.from({length:Math.max(0,h-d)},(_,k)=>n(d+k)),v={transform:`translateY(${d*e}px)`};return c`<div ref=${a} ...${r}>
    <div ...${i} style=${{height:`${t*e}px`}}>
      <div class="rows-in-sight" role="presentation" style=${v}>${g}</div>
    </div>
  </div>`}function Ui(t,e,n){let s=e*n;s<t.scrollTop?t.scrollTop=s:s+n>t.scrollTop+t.clientHeight&&(t.scrollTop=s+n-t.clientHeight)}var HM=256*1024,GM=16*1024*1024,VM=600,Jb=20,KM=8,YM=20,Qb=1e4,ji=ao(null);function Xb({path:t,onClose:e}){let n=de(()=>new Id(t),[t]),[{text:s,tokens:o},i]=M({text:"",tokens:[]}),[r,l]=M(null),a=async(T=!1)=>{try{do{let y=await n.next();if(y===null)break;i(E=>eR(E,tl(y)))}while(T&&!n.isEnd);l(null)}catch(y){l(y)}};O(()=>{a()},[n]);let u=P(null),f=({currentTarget:{scrollHeight:T,scrollTop:y,clientHeight:E}})=>{!r&&T-y-E<VM&&a()},[d,h]=M(80),g=T=>h(Math.max(YM,Math.floor(T/ki())-KM)),v=de(()=>ca(s,d),[s,d]),_=ZM(s,T=>Ui(u.current,XM(v,T),Jb)),k=T=>{let[y,E]=[v.starts[T],v.ends[T]],A=Yt(s,y,E,_.tokens),U=A.some(({scope:F})=>F);return c`<div key=${T} class="line">
      <span class="line-number" aria-hidden="true">${v.lines[T]||""}</span>
      <code>${(U?A:Yt(s,y,E,o)).map(Tr)}</code>
    </div>`};return c`<${et} title="Full output" wide=${!0} onClose=${e}>
    <${QM} find=${_} onFirst=${()=>a(!0)} />
    <${qi}
      box=${u}
      class="whole-output"
      tabindex="0"
      role="region"
      aria-label="Full output"
      count=${v.starts.length}
      height=${Jb}
      row=${k}
      onWidth=${g}
      onScroll=${f}
    />
    <footer>
      <span class="dim">${tR(n,r)}</span>
      ${!n.isEnd&&c`<${q} onClick=${()=>a()}>Load more<//>`}
      <${zs} text=${s} name="output" />
      <a class="button" href=${t} download>Download</a>
    </footer>
  <//>`}function ZM(t,e){let[n,s]=M(""),[o,i]=M(0),r=de(()=>JM(t,n),[t,n]),l=de(()=>r.map((f,d)=>({...f,scope:d===o?"match current":"match"})),[r,o]),a=f=>{if(r.length===0)return;let d=(f+r.length)%r.length;i(d),e(r[d].start)},u=r[0]?.start;return O(()=>{u!==void 0&&a(0)},[n,u===void 0]),{query:n,setQuery:s,at:o,matches:r,tokens:l,next:()=>a(o+1),previous:()=>a(o-1)}}function JM(t,e){if(e==="")return[];let n=new RegExp(e.replace(/[.*+?^${}()|[\]\\]/g,"\\$&"),"gi"),s=[];for(let{0:o,index:i}of t.matchAll(n))if(s.push({start:i,end:i+o.length})===Qb)break;return s}function QM({find:t,onFirst:e}){let{query:n,at:s,matches:o}=t,i=P(null);O(()=>{let f=d=>{!(d.ctrlKey||d.metaKey)||d.key!=="f"||(d.preventDefault(),i.current.select())};return addEventListener("keydown",f),()=>removeEventListener("keydown",f)},[]);let r=({target:f})=>{n===""&&e(),t.setQuery(f.value)},l=f=>{f.key!=="Enter"||f.isComposing||(f.preventDefault(),f.shiftKey?t.previous():t.next())},a=o.length===Qb?"+":"",u=o.length?`${x(s+1)} of ${x(o.length)}${a}`:"No matches";return c`<div class="find-bar" role="search">
    <input
      ref=${i}
      type="search"
      aria-label="Find in output"
      placeholder="Find"
      value=${n}
      onInput=${r}
      onKeyDown=${l}
    />
    <span class="dim numbers" role="status">${n&&u}</span>
    <button type="button" aria-label="Previous match" disabled=${!o.length} onClick=${t.previous}>‹</button>
    <button type="button" aria-label="Next match" disabled=${!o.length} onClick=${t.next}>›</button>
  </div>`}function XM({starts:t},e){let[n,s]=[0,t.length];for(;s-n>1;){let o=n+s>>1;t[o]<=e?n=o:s=o}return n}function eR(t,{text:e,tokens:n}){let s=i=>i+t.text.length,o=n.map(({start:i,end:r,scope:l})=>({start:s(i),end:s(r),scope:l}));return{text:t.text+e,tokens:[...t.tokens,...o]}}function tR(t,e){if(e)return e.message;if(t.size===null)return"Loading…";if(t.read>=t.size)return`All ${Se(t.size)} loaded`;let n=t.isEnd?"; download it to see the rest":"";return`${Se(t.read)} of ${Se(t.size)} loaded${n}`}var Id=class{read=0;size=null;#e;#t=new TextDecoder;#n="";#s=null;constructor(e){this.#e=e}get isEnd(){return this.size!==null&&this.read>=Math.min(this.size,GM)}async next(){if(this.isEnd||this.#s)return null;this.#s=this.#o();try{return await this.#s}finally{this.#s=null}}async#o(){let e={Range:`bytes=${this.read}-${this.read+HM-1}`},n=await Wt("GET",this.#e,{headers:e}),s=new Uint8Array(await n.arrayBuffer()),o=/\/(\d+)$/.exec(n.headers.get("Content-Range")??"");this.read+=s.length,this.size=o?Number(o[1]):this.read;let i=this.#n+this.#t.decode(s,{stream:!this.isEnd}),r=this.isEnd?i.length:nR(i);return this.#n=i.slice(r),i.slice(0,r)}};function nR(t){let e=t.lastIndexOf(`
`,t.length-1)+1;if(e>t.length-8192&&e>0)return e;let n=t.lastIndexOf("\x1B");return n>=t.length-64&&n>0?n:t.endsWith("\r")?t.length-1:t.length}var sR=10,ew=1500;function tw({state:t,callId:e}){return c`<${nl} label="Live output" output=${t.transcript.preview(e).value} />`}function nl({label:t,output:e}){let{text:n,tokens:s}=de(()=>tl(oR(e,4*ew)),[e]),o=n.trimEnd().length;if(o===0)return null;let i=Math.max(o-ew,iR(n,o,sR));return c`<pre class="tail" aria-label=${t}>${Yt(n,i,o,s).map(Tr)}</pre>`}function oR(t,e){if(t.length<=e)return t;let n=t.slice(-e);return n.slice(n.indexOf(`
`)+1)}function iR(t,e,n){let s=e;for(let o=n;o>0&&s>0;o-=1)s=t.lastIndexOf(`
`,s-1);return s+(s<0||t[s]===`
`?1:0)}function nw({state:t,result:e}){let n=ke(ji),s=I(t.id,"tool-calls",e.call_id,"output"),{text:o,tokens:i}=de(()=>tl(e.output),[e.output]);return c`<div class="output">
    ${e.compacted_at&&c`<${rR} result=${e} />`}
    ${o===""?c`<p class="dim">No output.</p>`:c`<div class="copyable">
          <${ft} label="Output" text=${o} tokens=${i} /><${zs} text=${o} name="output" />
        </div>`}
    <${go} sessionId=${t.id} parts=${e.images??[]} />
    ${e.bytes>0&&c`<p class="output-ways">
      ${e.truncated&&c`<span class="dim">Truncated.</span> `}
      <button type="button" class="link" onClick=${()=>n.value=s}>Full output</button>${" "}
      <a href=${s} download=${`${e.call_id}.txt`}>Download</a> <span class="dim">${Se(e.bytes)}</span>
    </p>`}
  </div>`}function rR({result:t}){let e=t.original_tokens==null?"":` instead of ${x(t.original_tokens)} tokens`;return c`<p class="pruned">
    Cleared from the context on ${ze(t.compacted_at)}: the model now sees a placeholder${e}.
  </p>`}var lR=2e3,sw=Symbol("gone");function kc(t,e,n){let s=we(null);return O(()=>{if(!e)return;let o=!1,i=null,r=async()=>{let l=s.peek(),a=document.hidden?null:await t(l).catch(({status:u})=>u===404?sw:null);o||a===sw||(a&&(s.value=a),!(a&&n(a))&&(i=setTimeout(r,lR)))};return r(),()=>{o=!0,clearTimeout(i)}},[e]),s}var aR=8e3,ow=200;function iw({state:t,note:{at:e,command_id:n,command:s,end:o}}){let i=I(t.id,"commands",n),r=d=>W(`${i}/output?since=${Math.max(0,d-aR)}`),a=kc(async d=>r((d??await r(Number.MAX_SAFE_INTEGER)).bytes),o===null,({status:d})=>d!=="running").value,u=o??a??{status:"running"},f=u.status==="running";return c`<p class=${dR(u)?"failed":void 0}>
      Background command <code>${L(s.slice(0,ow))}</code>: ${fR(u)}${" "}
      ${!f&&u.bytes>0&&c`<${cR} sessionId=${t.id} callId=${n} /> `}
      <time class="numbers" datetime=${e} title=${ze(e)}>${Rt(e)}</time>
      ${f&&c` <${q} onClick=${()=>Vt(i)} aria-label=${`Stop ${L(s.slice(0,ow))}`}>
        Stop
      <//>`}
    </p>
    ${f&&a&&c`<${nl} label="Live output" output=${a.output} />`}`}function cR({sessionId:t,callId:e}){let n=ke(ji),s=I(t,"tool-calls",e,"output");return c`<button type="button" class="link" onClick=${()=>n.value=s}>Output</button>`}var uR={running:"running",stopped:"stopped",cancelled:"cancelled with its run",limit:"stopped at a limit",sandbox_stopped:"stopped with its sandbox",interrupted:"interrupted by a server restart",failed:"could not be started"};function fR({status:t,exit_code:e,remark:n}){let s=t==="exited"?`ended with exit code ${e}`:uR[t];return n?`${s} (${L(n)})`:s}var dR=({status:t,exit_code:e})=>t==="exited"?e!==0:["limit","interrupted","failed"].includes(t);function rw({state:t,note:{at:e,server:n,...s}}){return c`<p class=${s.type==="mcp.failed"?"failed":void 0}>
    ${s.type==="mcp.failed"?c`<${gR} server=${n} ...${s} />`:pR(n,s)}${" "}
    <a href=${be(t.id,"context")}>Tools</a>${" "}
    <time class="numbers" datetime=${e} title=${ze(e)}>${Rt(e)}</time>
  </p>`}function pR(t,{tools:e,left_out:n}){let s=Object.keys(n??{}).length,o=`${x(e.length)} ${e.length===1?"tool":"tools"}`;return`MCP server ${L(t)} ready: ${o}${s>0?`, ${x(s)} left out`:""}.`}var hR={secret_missing:"Add the secret; the server is retried while the session works.",unauthorized:"Check its credentials; the server is retried while the session works."},mR=t=>`${L(t).trim().replace(/\.$/,"")}.`;function gR({server:t,code:e,detail:n}){return c`MCP server ${L(t)} failed (<code>${L(e)}</code>): ${mR(n)}${" "}
    Its tools are not offered. ${hR[e]??"It is retried while the session works."}`}function lw({note:{at:t,subagent_id:e,title:n,end:s}}){let o=kc(()=>W(I(e)),s===null,({status:r})=>r==="idle").value,i=s??(o?.status==="idle"?o:null);return c`<p class=${i&&i.outcome!=="completed"?"failed":void 0}>
      Sub-agent <a href=${be(e)}>${L(n??e)}</a>: ${i?vR(i):"working"}${" "}
      <time class="numbers" datetime=${t} title=${ze(t)}>${Rt(t)}</time>
    </p>
    ${!i&&o&&c`<p class="note-now"><${$R} session=${o} /></p>`}`}function $R({session:t}){return t.status==="awaiting_approval"?"Waiting for your approval":c`<${aa} session=${t} />`}function vR({outcome:t,steps:e,error:n}){let s=`${t.replace("_"," ")} after ${x(e)} ${e===1?"step":"steps"}`;return n?c`${s} (<code>${L(n.code)}</code>)`:s}function aw(t,e,n){let s=Number(Be.value.query.message)||null,o=P(!1);pe(()=>{o.current=s!==null,s!==null&&t.loadAround(s).catch(()=>{})},[t,s]);let i=s===null?-1:n.findLastIndex(({id:r})=>r&&t.message(r)?.peek().seq<=s);return pe(()=>{!o.current||i<0||t.loading.peek()||(o.current=!1,t.reading.follow(!1),e.scrollToIndex(i,{align:"center"}))}),n[i]?.key??null}function cw({state:t,message:e}){let n=e.parts.filter(({type:o})=>o==="text").map(o=>o.text).join(`

`);return c`<${q} kind="plain row-edit" onClick=${async()=>{let{transcript:o}=t,i=o.order.peek(),r=i[i.indexOf(e.id)-1];if(r===void 0&&o.hasEarlier.peek())throw new Error("Scroll up to load earlier messages.");if(r===void 0)return bR(t.session.peek(),n);let l=await Me(I(t.id,"fork"),{after_message_id:r});Lb(l.id,n),ve("This is a fork from before the message. Edit the message and send it; the original session is unchanged."),ot(be(l.id))}}>Edit<//>`}function bR({model:t},e){ho({task:e,model:t}),gr()}function uw({part:t,isWriting:e}){let n=`${x(t.text.length)} ${t.text.length===1?"character":"characters"}`,s=c`<span>${e?"Reasoning…":"Reasoning"}</span> <span class="dim numbers">${n}</span>`;return c`<${Bi} id=${t.id} head=${s} kind="reasoning">
    ${()=>Ws(ue(t.text)).map((o,i)=>c`<div key=${i} class="as-is block" dir="auto">${o}</div>`)}
  <//>`}var sl=class{diff(e,n,s={}){let o;typeof s=="function"?(o=s,s={}):"callback"in s&&(o=s.callback);let i=this.castInput(e,s),r=this.castInput(n,s),l=this.removeEmpty(this.tokenize(i,s)),a=this.removeEmpty(this.tokenize(r,s));return this.diffWithOptionsObj(l,a,s,o)}diffWithOptionsObj(e,n,s,o){var i;let r=y=>{if(y=this.postProcess(y,s),o){setTimeout(function(){o(y)},0);return}else return y},l=n.length,a=e.length,u=1,f=l+a;s.maxEditLength!=null&&(f=Math.min(f,s.maxEditLength));let d=(i=s.timeout)!==null&&i!==void 0?i:1/0,h=Date.now()+d,g=[{oldPos:-1,lastComponent:void 0}],v=this.extractCommon(g[0],n,e,0,s);if(g[0].oldPos+1>=a&&v+1>=l)return r(this.buildValues(g[0].lastComponent,n,e));let _=-1/0,k=1/0,T=()=>{for(let y=Math.max(_,-u);y<=Math.min(k,u);y+=2){let E,A=g[y-1],U=g[y+1];A&&(g[y-1]=void 0);let F=!1;if(U){let K=U.oldPos-y;F=U&&0<=K&&K<l}let G=A&&A.oldPos+1<a;if(!F&&!G){g[y]=void 0;continue}if(!G||F&&A.oldPos<U.oldPos?E=this.addToPath(U,!0,!1,0,s):E=this.addToPath(A,!1,!0,1,s),v=this.extractCommon(E,n,e,y,s),E.oldPos+1>=a&&v+1>=l)return r(this.buildValues(E.lastComponent,n,e))||!0;g[y]=E,E.oldPos+1>=a&&(k=Math.min(k,y-1)),v+1>=l&&(_=Math.max(_,y+1))}u++};if(o)(function y(){setTimeout(function(){if(u>f||Date.now()>h)return o(void 0);T()||y()},0)})();else for(;u<=f&&Date.now()<=h;){let y=T();if(y)return y}}addToPath(e,n,s,o,i){let r=e.lastComponent;return r&&!i.oneChangePerToken&&r.added===n&&r.removed===s?{oldPos:e.oldPos+o,lastComponent:{count:r.count+1,added:n,removed:s,previousComponent:r.previousComponent}}:{oldPos:e.oldPos+o,lastComponent:{count:1,added:n,removed:s,previousComponent:r}}}extractCommon(e,n,s,o,i){let r=n.length,l=s.length,a=e.oldPos,u=a-o,f=0;for(;u+1<r&&a+1<l&&this.equals(s[a+1],n[u+1],i);)u++,a++,f++,i.oneChangePerToken&&(e.lastComponent={count:1,previousComponent:e.lastComponent,added:!1,removed:!1});return f&&!i.oneChangePerToken&&(e.lastComponent={count:f,previousComponent:e.lastComponent,added:!1,removed:!1}),e.oldPos=a,u}equals(e,n,s){return s.comparator?s.comparator(e,n):e===n||!!s.ignoreCase&&e.toLowerCase()===n.toLowerCase()}removeEmpty(e){let n=[];for(let s=0;s<e.length;s++)e[s]&&n.push(e[s]);return n}castInput(e,n){return e}tokenize(e,n){return Array.from(e)}join(e){return e.join("")}postProcess(e,n){return e}get useLongestToken(){return!1}buildValues(e,n,s){let o=[],i;for(;e;)o.push(e),i=e.previousComponent,delete e.previousComponent,e=i;o.reverse();let r=o.length,l=0,a=0,u=0;for(;l<r;l++){let f=o[l];if(f.removed)f.value=this.join(s.slice(u,u+f.count)),u+=f.count;else{if(!f.added&&this.useLongestToken){let d=n.slice(a,a+f.count);d=d.map(function(h,g){let v=s[u+g];return v.length>h.length?v:h}),f.value=this.join(d)}else f.value=this.join(n.slice(a,a+f.count));a+=f.count,f.added||(u+=f.count)}}return o}};var Dd=class extends sl{constructor(){super(...arguments),this.tokenize=yR}equals(e,n,s){return s.ignoreWhitespace?((!s.newlineIsToken||!e.includes(`
`))&&(e=e.trim()),(!s.newlineIsToken||!n.includes(`
`))&&(n=n.trim())):s.ignoreNewlineAtEof&&!s.newlineIsToken&&(e.endsWith(`
`)&&(e=e.slice(0,-1)),n.endsWith(`
`)&&(n=n.slice(0,-1))),super.equals(e,n,s)}},wR=new Dd;function fw(t,e,n){return wR.diff(t,e,n)}function yR(t,e){e.stripTrailingCr&&(t=t.replace(/\r\n/g,`
`));let n=[],s=t.split(/(\n|\r\n)/);s[s.length-1]||s.pop();for(let o=0;o<s.length;o++){let i=s[o];o%2&&!e.newlineIsToken?n[n.length-1]+=i:n.push(i)}return n}var _R=100,dw=3,kR=/^ *(\d+) {2}(.*)$/;function pw(t,e,n){let s=t==="edit_file"?[e?.old_text,e?.new_text]:["",e?.content];if(!(t==="edit_file"||t==="write_file")||[e?.path,...s].some(v=>typeof v!="string"))return null;let[i,r]=s.map(v=>v.replace(/\r\n/g,`
`));if(t==="write_file")return Nd("",r,1);let l=SR(n??"",r);if(!l)return xR(Nd(i,r,1));let{start:a,above:u=[],prefix:f="",suffix:d="",below:h=[]}=l,g=v=>[...u,`${f}${v}${d}`,...h].join(`
`);return Nd(g(i),g(r),a-u.length)}function hw({lines:t}){let e=n=>t.filter(({kind:s})=>s===n).length;return{additions:e("added"),deletions:e("removed")}}function Nd(t,e,n){let s=l=>l===""||l.endsWith(`
`)?l:`${l}
`,i=(fw(s(t),s(e),{timeout:_R})??[{removed:!0,value:s(t)},{added:!0,value:s(e)}]).flatMap(({added:l,removed:a,value:u})=>{let f=l?"+":a?"-":" ";return u.split(`
`).slice(0,-1).map(d=>f+d)}),r=Da(`@@ -${n} +${n} @@
${i.join(`
`)}`);return{...r,lines:r.lines.filter(({kind:l})=>l!=="hunk")}}var xR=t=>({...t,lines:t.lines.map(e=>({...e,old:null,new:null}))});function SR(t,e){let n=new Map;for(let r of t.split(`
`)){let[,l,a]=kR.exec(r)??[];l&&n.set(Number(l),a)}let s=Math.min(...n.keys());if(n.size===0)return null;let o=s>1?[s+dw]:[1,2,3,4],i=e===""?[]:o.flatMap(r=>ER(n,r,e.split(`
`)));return i.length===1?i[0]:s>1?{start:s+dw}:null}function ER(t,e,n){let s=e+n.length-1,o=n.slice(1,-1).every((h,g)=>(t.get(e+1+g)??h)===h),[i,r]=[t.get(e),t.get(s)??(n.at(-1)===""?"":void 0)];if(i===void 0||r===void 0||!o)return[];let l=(h,g)=>[...t].filter(([v])=>v>=h&&v<=g).map(([,v])=>v),[a,u]=[l(1,e-1),l(s+1,1/0)],f=(h,g)=>({start:e,above:a,prefix:h,suffix:g,below:u});if(n.length>1)return!i.endsWith(n[0])||!r.startsWith(n.at(-1))?[]:[f(i.slice(0,i.length-n[0].length),r.slice(n.at(-1).length))];let d=[];for(let h=i.indexOf(n[0]);h>=0;h=i.indexOf(n[0],h+1))d.push(f(i.slice(0,h),i.slice(h+n[0].length)));return d}var Fd=16,mw=4;function gw({name:t,arguments:e,open:n},s){let o=s?.status==="completed"?s.output:null,i=!n&&(s===null||o!==null);return de(()=>i?pw(t,e,o):null,[t,e,o,i])}function $w({diff:t,path:e,callId:n}){let s=ke(xs),o=`diff ${n}`,i=s.of(o).value||t.lines.length<=Fd+mw,r=de(()=>i?t:{...t,lines:t.lines.slice(0,Fd)},[t,i]);return t.lines.length===0?null:c`<div class="edit-diff" role="region" aria-label="Diff">
    <${za} diff=${r} path=${e} />
    ${t.lines.length>Fd+mw&&c`<button type="button" class="plain" aria-expanded=${i} onClick=${()=>s.toggle(o)}>
      ${i?"Show less":`Show all ${x(t.lines.length)} lines`}
    </button>`}
  </div>`}var vw=({diff:t})=>c`<${Sn} ...${hw(t)} />`;var CR=2e4;function bw({state:t,part:e}){let n=e.open?null:t.transcript.result(e.call_id).value,s=lm(e,n,t),o=gw(e,n),i=e.open?rm(e):li(e),r=c`<${Xn} name=${om(e.name)} />
    <span class="call-verb">${i.verb}</span>
    <span class="call-argument mono">${i.argument}</span>
    ${i.more&&c`<span class="dim call-more">${i.more}</span>`}
    ${o&&c`<span class="call-more"><${vw} diff=${o} /></span>`}
    <span class="call-end">
      ${n&&c`<span class="dim numbers">${TR(n)}</span>`}
      ${s.kind==="good"?c`<span class="hidden">${s.word}</span>`:c`<${xe} kind=${s.kind}>${s.word}<//>`}
    </span>`,l={"data-call-id":e.call_id,"data-status":n?.status??s.word};return c`<div class="call ${s.kind}" ...${l}>
    <${Bi} id=${e.call_id??e.id} head=${r} kind="tool">
      ${()=>c`<${OR} state=${t} part=${e} result=${n} hasDiff=${o!==null} />`}
    <//>
    ${o&&c`<${$w} diff=${o} path=${e.arguments.path} callId=${e.call_id} />`}
    ${!n&&!e.open&&c`<${tw} state=${t} callId=${e.call_id} />`}
    ${s.kind==="bad"&&c`<${nl} label="End of the output" output=${n.output} />`}
  </div>`}function TR({duration_ms:t,images:e,compacted_at:n}){return[e?.length>0&&(e.length===1?"1 image":`${e.length} images`),t>0&&_e(t),n&&"cleared from the context"].filter(Boolean).join(" · ")}function OR({state:t,part:e,result:n,hasDiff:s}){return e.open?c`<${ft} label="Arguments" text=${ue(e.written)} />`:c`${!s&&c`<${AR} name=${e.name} args=${e.arguments??{}} />`}
    ${n&&c`<${nw} state=${t} result=${n} />`}`}function AR({name:t,args:e}){if(t==="execute_command"&&typeof e.command=="string"){let{command:n,timeout_s:s,...o}=e;if(Object.keys(o).length===0)return c`<${MR} text=${n} timeout=${s} />`}return c`<${vi} name=${t} args=${e} />`}function MR({text:t,timeout:e}){return c`${t.length>CR?c`<${ft} label="Command" text=${ue(t)} />`:c`<div class="file-text" tabindex="0" role="region" aria-label="Command">
          <${gi} text=${t} language="bash" />
        </div>`}
    ${e!=null&&c`<p class="dim">Timeout: ${_e(Number(e)*1e3)}</p>`}`}var RR={user:"You",control:"Palimpsest",assistant:"Assistant",system:"System"},zd=({role:t})=>RR[t]??t;function yw({state:t,id:e,isMore:n}){let s=t.transcript.message(e)?.value;if(!s)return null;let o=IR(s)&&t.session.value?.status!=="idle",i=s.round!=null,r=LR(s);return c`<header class="row-head ${n&&!o?"is-more":""}">
      <h2>${o?c`<span class="writing">Writing…</span>`:zd(s)}</h2>
      <div class="row-tools">
        <a class="row-link" href=${be(t.id,"conversation",{message:s.seq})}>
          <time class="dim numbers" datetime=${s.created_at} title=${ze(s.created_at)}>
            ${Rt(s.created_at)}
          </time>
        </a>
        ${s.role==="user"&&c`<${cw} state=${t} message=${s} />`}
      </div>
      ${i&&c`<span class="hidden">Not in the model's context</span>`}
    </header>
    <div class="row-body ${i?"unseen":""}" title=${i?"Not in the model's context":void 0}>
      ${PR(t,s)}
      ${r&&!o&&c`<${zs} text=${r} name="message" />`}
    </div>`}function LR({parts:t}){return t.filter(({type:e})=>e==="text").map(({text:e})=>e).join(`

`)}function PR(t,e){if(e.role!=="assistant")return c`<${NR} state=${t} message=${e} />`;let n=e.parts.at(-1);return[...e.parts.map(s=>{let o=s===n&&e.finish_reason===null;return c`<${DR} key=${s.id} state=${t} part=${s} isOpen=${s.open||o} />`}),c`<${zR} key="end" message=${e} />`]}function IR({role:t,finish_reason:e,parts:n}){if(t!=="assistant"||e!==null)return!1;let s=n.at(-1);return s?.type!=="tool_call"||s.open===!0}function DR({state:t,part:e,isOpen:n}){switch(e.type){case"text":return c`<${Vs} id=${e.id} text=${e.text} isWhole=${!n} />`;case"reasoning":return e.text?c`<${uw} part=${e} isWriting=${n} />`:null;case"tool_call":return c`<${bw} state=${t} part=${e} />`;default:return c`<${go} sessionId=${t.id} parts=${[e]} />`}}function NR({state:t,message:{role:e,parts:n}}){let s=e==="user"?Nb:wc;return FR(n).map(o=>{let[{id:i,type:r,text:l}]=o;return r==="text"?c`<${s} key=${i} state=${t} text=${l} />`:c`<${go} key=${i} sessionId=${t.id} parts=${o} />`})}function FR(t){let e=[];for(let n of t)n.type==="image"&&e.at(-1)?.[0].type==="image"?e.at(-1).push(n):e.push([n]);return e}var ww={length:"Cut off here: the answer reached the maximum length.",refusal:"The model declined to answer.",content_filter:"The provider's content filter ended the answer here.",cancelled:"Cancelled here.",interrupted:"Interrupted here: the server stopped while the model was writing."};function zR({message:{finish_reason:t,error:e}}){if(t==="error"){let n=e?L(`${e.detail??e.title??""} (${e.code??"unknown"})`):"";return c`<p class="row-end bad">Failed here. ${n}</p>`}return ww[t]?c`<p class="row-end">${ww[t]}</p>`:null}var WR=4,BR=500,_w=t=>xc(t)-t.scrollTop<=WR;function xw(t,e,n){let{reading:s}=t,o=P(s.isFollowed?"end":null),i=P({scrollTop:0,scrollHeight:0,clientHeight:0,lowest:1/0}),r=P(-1/0),l=_=>{let k=_w(_)&&!t.hasLater.peek();return k&&s.follow(!0),k};pe(()=>{let _=s.isFollowed&&!_w(n.current);o.current==="start"?e.scrollToOffset(0):(o.current==="end"||_)&&e.scrollToEnd(),o.current=null;let{scrollTop:k,lowest:T}=i.current;i.current={...kw(n.current),scrollTop:k,lowest:Math.min(T,xc(n.current))}}),pe(()=>{l(n.current)},[e.getTotalSize()]),pe(()=>(s.place=null,()=>s.place=s.isFollowed?null:qR(e)),[t]);let a=()=>n.current.focus({preventScroll:!0}),u=({currentTarget:_})=>{let{scrollTop:k,scrollHeight:T,clientHeight:y,lowest:E}=i.current,A=_.scrollTop<k,U=_.scrollHeight===T&&_.clientHeight===y,F=_.scrollTop<Math.min(E,xc(_))-_.clientHeight;i.current=kw(_),!(l(_)||!A)&&(U||F||performance.now()-r.current<BR)&&s.follow(!1)},f=()=>r.current=performance.now(),d=async()=>{t.hasEarlier.peek()&&await t.loadOldest(),s.follow(!1),o.current="start",e.scrollToOffset(0)},h=async()=>{await t.followNewest(),o.current="end",e.scrollToEnd(),a()};return{focus:a,handlers:{...{onWheel:f,onPointerDown:f,onTouchMove:f,onKeyDown:_=>{if(f(),_.target!==_.currentTarget||_.altKey||_.metaKey)return;let k={Home:d,End:h}[_.key];k&&(_.preventDefault(),k().catch(()=>{}))}},onScrollCapture:u},toFirst:d,toNewest:h}}var xc=({scrollHeight:t,clientHeight:e})=>t-e;function kw(t){let{scrollTop:e,scrollHeight:n,clientHeight:s}=t;return{scrollTop:e,scrollHeight:n,clientHeight:s,lowest:xc(t)}}function qR(t){let e=t.getScrollOffset(),n=t.getVirtualItemForOffset(e);return n?{key:n.key,beyond:e-n.start,sizes:t.takeSnapshot()}:null}function Sw(t,e,n){let s=n?e.findIndex(({key:o})=>o===n.key):-1;return s<0?null:t.getMeasurements()[s].start+n.beyond}function Ew({sessionId:t,round:{round:e,reason:n,summary:s,tokens_before:o,tokens_after:i}}){let r=ke(xs),l=`round ${e}`,a=r.of(l).value;return c`<p class="rule">
      <span title="Compaction ${e}: ${_s[n]??n}">
        Compacted <span class="numbers">${lt(o)} → ${lt(i)}</span>
      </span>
      ${s&&c`<button type="button" class="link" aria-expanded=${a} onClick=${()=>r.toggle(l)}>
        ${a?"hide summary":"read summary"}
      </button>`}
      <a href=${be(t,"context")}>context</a>
    </p>
    ${a&&c`<div class="rule-summary">
      <p class="dim">The model sees this summary instead of the marked messages above.</p>
      <${Vs} id="rule-${e}-${t}" text=${s} isWhole=${!0} />
    </div>`}`}var Wd=5,UR=2e3;function Cw({state:t,end:e,isLatest:n,hasAnswer:s}){let o=HR(t,e,n),i=n&&t.session.value?.status==="idle";return c`<header class="row-head">
      <h2>Run ended</h2>
      <time class="dim numbers" datetime=${e.at} title=${ze(e.at)}>${Rt(e.at)}</time>
    </header>
    <div class="row-body run-card">
      <p class="run-facts">
        <${xe} kind=${Eu(e.outcome)}>${e.outcome.replace("_"," ")}<//>
        ${jR(e).map(r=>c`<span key=${r} class="numbers">${r}</span>`)}
        <${GR} ...${o} failure=${e.failure} />
      </p>
      <${YR} end=${e} isIdle=${i} />
      ${e.answer&&!s&&c`<${Vs} id=${`answer-${e.seq}`} text=${e.answer} isWhole=${!0} />`}
      ${e.output!=null&&c`<${ZR} output=${e.output} />`}
      ${o.list?.items.length>0&&c`<${JR} list=${o.list} />`}
      <${QR} ...${{state:t,changed:o,isIdle:i}} />
    </div>`}function jR({steps:t,startedAt:e,at:n,usage:s}){let o=e===null?null:Date.parse(n)-Date.parse(e),i=s.cost_usd?nt(s.cost_usd):null;return[`${x(t)} ${t===1?"step":"steps"}`,o!==null&&_e(o),i].filter(Boolean)}function HR(t,e,n){let s=Dr(t),o=s.checkpoints.value;O(()=>{(n||o===null)&&s.findCheckpoints()},[n,e.seq]);let i=c$(e,o??[]),l=i.begin!==null&&i.end!==null?s.summary(i.begin,i.end,n).value:null;return{...i,list:l}}function GR({list:t,failure:e}){return e?c`<span class="dim">changes unknown: ${L(e.detail)}</span>`:t===null?null:t.items.length===0?c`<span>no files changed</span>`:c`<span>${qs(t.items.length)} changed <${Sn} ...${t} /></span>`}var VR={output_invalid:"Check the output's schema, or resume to let the model try again.",missing_api_key:"Set the provider's API key, then resume.",clone_failed:"Check the repository's address, its ref and its credential, then resume to clone again.",context_too_large:"Choose a model with a larger window or fork from an earlier point, then resume."},KR={failed:"Resume to try the failed step again, or send a message to change course.",cancelled:"Resume to continue where the run stopped, or send a message.",interrupted:"Resume to continue where the run stopped, or send a message."};function YR({end:{outcome:t,error:e},isIdle:n}){let s=n&&(VR[e?.code]??KR[t]);return!e&&!s?null:c`<div class="run-problem ${t}">
    ${e&&c`<p><code>${L(String(e.code))}</code> ${L(e.detail??e.title??"")}</p>`}
    ${s&&c`<p class="dim">${s}</p>`}
  </div>`}function ZR({output:t}){let e=JSON.stringify(t,null,2);return c`<section class="run-output" aria-label="Output">
    <h3>Output</h3>
    ${e.length>UR?c`<${ft} label="Output" text=${io(e)} />`:c`<${gi} text=${e} language="json" />`}
  </section>`}function JR({list:{items:t}}){return c`<ul class="run-files">
    ${t.slice(0,Wd).map(e=>c`<li key=${e.path}>
        <${xe} kind=${_i[e.status]}>${e.status}<//>${" "}
        <code><${Pa} item=${e} /></code>${" "}
        ${e.binary?c`<span class="dim">binary</span>`:c`<${Sn} ...${e} />`}
      </li>`)}
    ${t.length>Wd&&c`<li class="dim">and ${x(t.length-Wd)} more</li>`}
  </ul>`}function QR({state:t,changed:{begin:e,end:n,list:s},isIdle:o}){let[i,r]=M(!1),l=e!==null&&n!==null&&s?.items.length!==0,a=o&&t.session.value?.kind!=="subagent";if(!l&&!a)return null;let u=()=>Dr(t).choose(e,n);return c`<div class="run-ways">
    ${l&&c`<a class="button" href=${be(t.id,"changes")} onClick=${u}>Show changes</a>
      <a class="button" href=${bs(t.id,e,n,"patch")} download=${`${t.id}.patch`}>
        Download patch
      </a>`}
    ${a&&c`<button type="button" onClick=${()=>r(!0)}>Fork</button>`}
    ${i&&c`<${ra} sessionId=${t.id} onClose=${()=>r(!1)} />`}
  </div>`}var Tw=12,XR=23,eL=27,tL=20,Ow=18,nL=90,sL=34,oL=95;function Aw(t,e,n=[],s=[]){let o=aL(e),i=[],r=[...n.map(f=>({seq:f.seq,end:f})),...s.map(f=>({seq:f.seq,note:f}))];r.sort((f,d)=>f.seq-d.seq);let l=t.order.value,a=f=>f<l.length?t.message(l[f]).peek().seq:iL(t),u=t.hasEarlier.value?r.findIndex(({seq:f})=>f>a(0)):0;return u<0&&(u=r.length),l.forEach((f,d)=>{let{role:h,is_summary:g}=t.message(f).peek();if(h!=="tool"&&!g){let v=h==="assistant"&&i.at(-1)?.role===h;i.push({key:f,id:f,role:h,isMore:v})}for(;u<r.length&&r[u].seq<a(d+1);u+=1){let{end:v,note:_}=r[u];v?rL(i,v,t):i.push({key:`note ${_.seq}`,note:_})}for(let v of o.get(f)??[])i.push({key:`round ${v.round}`,round:v})}),i}var iL=t=>t.hasLater.value?0:1/0;function rL(t,e,n){let s=t.findLast(({note:i})=>!i),o=e.answer!==null&&s?.id!==void 0&&lL(n.message(s.id).peek());o&&(s.isAnswer=!0),t.push({key:`end ${e.seq}`,end:e,hasAnswer:o})}var lL=({role:t,parts:e})=>t==="assistant"&&e.some(({type:n})=>n==="text");function aL(t){let e=new Map;for(let n of t)n.status!=="completed"||!n.last_message_id||e.set(n.last_message_id,[...e.get(n.last_message_id)??[],n]);return e}function Mw(t,e){if(e.round)return 44;if(e.end)return nL;if(e.note)return sL;let n=t.message(e.id)?.peek();return n?n.parts.reduce((s,o)=>s+cL(o),Tw):Tw}function cL(t){return t.type==="image"?Mg(t):t.type!=="text"?eL+uL(t):Math.min(2e4,Math.ceil(t.text.length/oL)*XR+8)}function uL({name:t,arguments:e}){if(t!=="write_file"&&t!=="edit_file")return 0;let s=[e?.content,e?.old_text,e?.new_text].filter(o=>typeof o=="string").reduce((o,i)=>o+i.split(`
`,Ow).length,0);return Math.min(Ow,s)*tL}globalThis.process??={env:{NODE_ENV:"production"}};function Rw(t){return typeof t=="object"?t.key:t}function Lw(t,e){let n=t.length;return new Proxy(t,{get(s,o,i){if(typeof o=="string"){let r=o.charCodeAt(0);if(r>=48&&r<=57){let l=+o;if(Number.isInteger(l)&&l>=0&&l<n){let a=s[l];if(typeof a!="object"){let u=e[l*2];a=s[l]={index:l,key:a,start:u,size:e[l*2+1],end:u+e[l*2+1],lane:0}}return a}}if(o==="length")return n}return Reflect.get(s,o,i)}})}function Ao(t,e,n){let s=n.initialDeps??[],o,i=!0;function r(){var l;let u=0,f=t();if(!(f.length!==s.length||f.some((g,v)=>s[v]!==g)))return o;s=f;let h=0;return o=e(...f),n?.onChange&&!(i&&n.skipInitialOnChange)&&n.onChange(o),i=!1,o}return r.updateDeps=l=>{s=l},r}function Bd(t,e){if(t===void 0)throw new Error(`Unexpected undefined${e?`: ${e}`:""}`);return t}var Es=(t,e)=>Math.abs(t-e)<1.01,Pw=(t,e,n)=>{let s;return Object.assign(function(...o){t.clearTimeout(s),s=t.setTimeout(()=>e.apply(this,o),n)},{cancel:()=>{t.clearTimeout(s)}})};function Iw({offset:t,isScrolling:e,elementMax:n,holdOffset:s,scrollOffset:o,pendingWrite:i,clampedMaxAtWrite:r}){var l;return e&&i===null&&t===o?"spurious":i!==null&&Math.abs(t-i.target)<1.5?"readBack":i!==null&&!i.smooth&&n!==null&&i.target>n+s+.5&&Math.abs(t-(n+s))<1.5||i!==null&&!i.smooth&&((l=i.lowMaxes)!=null&&l.some(a=>Math.abs(t-a)<1.5))?"clampedReadBack":r!==null&&Math.abs(t-r)<1.5?"clampedEcho":"external"}var fL=t=>t==="smooth"||t==="smoothFinishing";function Dw({kind:t,offset:e,command:n,target:s}){return t!=="spurious"&&t!=="readBack"&&t!=="clampedReadBack"&&n?.index!=null&&n.phase!=="queued"&&!fL(n.phase)&&!Es(e,n.lastTargetOffset)&&!Es(e,s())&&t!=="clampedEcho"}var qd=40;function Nw(t){let e=t[t.length-1];if(e===void 0)return!1;let n=t.length-2;for(;n>=0&&e.t-t[n].t<qd;)n--;if(n<0)return!1;let s=t[n],o=n-1;for(;o>=0&&s.t-t[o].t<qd;)o--;if(o<0)return!1;let i=t[o],r=(e.offset-s.offset)/(e.t-s.t),l=(s.offset-i.offset)/(s.t-i.t);return r*l>=0&&Math.abs(r)>=2*Math.abs(l)&&Math.abs(r)-Math.abs(l)>=.8}function Fw(t){let e=t[t.length-1];if(e===void 0)return!1;let n=t.length-2;for(;n>=0&&e.t-t[n].t<qd;)n--;if(n<0)return!1;let s=t[n];return Math.abs(e.offset-s.offset)/(e.t-s.t)>=.05}var ol,il=()=>{if(ol!==void 0)return ol;if(typeof navigator>"u")return ol=!1;if(/iP(hone|od|ad)/.test(navigator.userAgent))return ol=!0;let t=navigator.maxTouchPoints;return ol=navigator.platform==="MacIntel"&&t!==void 0&&t>0},Ud,dL=()=>Ud!==void 0?Ud:Ud=il()&&typeof CSS<"u"&&typeof CSS.supports=="function"&&CSS.supports("overflow-anchor: auto"),zw=()=>!il()||dL();var Hi={capture:!0,passive:!0},Sc=class{constructor(e){this.host=e,this._touch=null,this.inMotion=()=>this._touch!==null&&this._touch.phase!=="lateFling",this.dragging=()=>{var n;return((n=this._touch)==null?void 0:n.phase)==="down"&&this._touch.moved},this.tail=()=>{var n;return((n=this._touch)==null?void 0:n.phase)==="tail"?this._touch.moved?"fling":"tap":null},this.onScroll=({isScrolling:n,ownReadBack:s,moved:o,external:i})=>{var r,l,a;return n&&((r=this._touch)==null?void 0:r.phase)==="tail"?this._openTail(this._touch.moved||!s,!1):((l=this._touch)==null?void 0:l.phase)==="lateFling"&&(this.host.now()>this._touch.until?this._touch=null:i&&n&&o&&this._openTail(!0,!1)),!s&&n&&o&&((a=this._touch)==null?void 0:a.phase)==="down"?(this._touch.moved=!0,!0):!1},this.touchStart=()=>{this.end(),this._touch={phase:"down",moved:!1}},this.touchEnd=()=>{var n;let s=((n=this._touch)==null?void 0:n.phase)==="down"&&this._touch.moved;this.end(),this._openTail(s,s)},this.end=()=>{var n;let s=this.host.getWindow();((n=this._touch)==null?void 0:n.phase)==="tail"&&s!=null&&s.clearTimeout(this._touch.timerId),this._touch=null},this.listen=n=>{let s=()=>this.touchStart(),o=()=>this.touchEnd();return n.addEventListener("touchstart",s,Hi),n.addEventListener("touchend",o,Hi),n.addEventListener("touchcancel",o,Hi),()=>{n.removeEventListener("touchstart",s,Hi),n.removeEventListener("touchend",o,Hi),n.removeEventListener("touchcancel",o,Hi),this.end()}},this._openTail=(n,s)=>{let o=this.host.getWindow();if(o==null)return;this.end();let i={phase:"tail",moved:n,awaitingFling:s,timerId:o.setTimeout(()=>{if(this.host.tailStillMoving()){this._openTail(i.moved,i.awaitingFling);return}this._touch=i.awaitingFling?{phase:"lateFling",until:this.host.now()+1e3}:null,this.host.onTailClosed()},150)};this._touch=i}}get touch(){return this._touch}};var Ww=t=>{let{clientWidth:e,clientHeight:n}=t;return{width:e,height:n}},Uw=t=>{let e=new Set;return{schedule:n=>{let s=t.requestAnimationFrame(()=>{e.delete(s),n()});e.add(s)},cancel:()=>{e.forEach(n=>t.cancelAnimationFrame(n)),e.clear()}}},pL=t=>t,Ec=t=>{let e=t.overscan*Math.max(t.lanes??1,1),n=Math.max(t.startIndex-e,0),o=Math.min(t.endIndex+e,t.count-1)-n+1,i=new Array(o);for(let r=0;r<o;r++)i[r]=n+r;return i},jd=(t,e)=>{let n=t.scrollElement;if(!n)return;let s=t.targetWindow;if(!s)return;let o=l=>{let{width:a,height:u}=l;e({width:Math.round(a),height:Math.round(u)})};if(o(Ww(n)),!s.ResizeObserver)return()=>{};let i=Uw(s),r=new s.ResizeObserver(()=>{let l=()=>{o(Ww(n))};t.options.useAnimationFrameWithResizeObserver?i.schedule(l):l()});return r.observe(n,{box:"content-box"}),()=>{r.unobserve(n),i.cancel()}},Bw={passive:!0};var hL=typeof window>"u"?!0:"onscrollend"in window,mL=(t,e,n)=>{let s=t.scrollElement;if(!s)return;let o=t.targetWindow;if(!o)return;let i=t.options.useScrollendEvent&&hL,r=0,l=i?null:Pw(o,()=>e(n(s),!1),t.options.isScrollingResetDelay),a=d=>()=>{r=n(s),l?.(),e(r,d)},u=a(!0),f=a(!1);return s.addEventListener("scroll",u,Bw),i&&s.addEventListener("scrollend",f,Bw),()=>{s.removeEventListener("scroll",u),i&&s.removeEventListener("scrollend",f),l?.cancel()}},Hd=(t,e)=>mL(t,e,n=>{let{horizontal:s,isRtl:o}=t.options;return s?n.scrollLeft*(o&&-1||1):n.scrollTop});var gL=(t,e,n)=>{if(n.options.useCachedMeasurements){let s=n.indexFromElement(t),o=n.options.getItemKey(s);return n.itemSizeCache.get(o)??n.options.estimateSize(s)}if(e?.borderBoxSize){let s=e.borderBoxSize[0];if(s)return Math.round(s[n.options.horizontal?"inlineSize":"blockSize"])}if(!e){let s=n.indexFromElement(t),o=n.options.getItemKey(s),i=n.itemSizeCache.get(o);if(i!==void 0)return i}return t[n.options.horizontal?"offsetWidth":"offsetHeight"]},$L=(t,{adjustments:e=0,behavior:n},s)=>{var o;let{scrollElement:i,options:r}=s,l=t+e,a=r.horizontal&&r.isRtl&&i!==null&&"ownerDocument"in i;(o=i?.scrollTo)==null||o.call(i,{[r.horizontal?"left":"top"]:a?-l:l,behavior:n})};var Gd=$L,qw=(t,e)=>t==="smooth"?e?"smoothLanded":"smooth":"instant",rl=t=>t?.phase==="smooth"||t?.phase==="smoothLanded";function vL(t,e,n,s){if(e===0)return!1;let o=s(0),i=new Set,r=0;for(;r<t;){let a=n(r);if(a===o)break;i.add(a),r++}let l=t-r;if(l===0||l>=e)return!1;for(let a=0;a<l;a++)if(s(a)!==n(r+a))return!1;for(let a=l;a<e;a++)if(i.has(s(a)))return!1;return!0}var ll=class{constructor(e){this.unsubs=[],this.scrollElement=null,this.targetWindow=null,this.isScrolling=!1,this.scrollState=null,this.measurementsCache=[],this._singleLaneMeasurements=null,this.itemSizeCache=new Map,this.itemSizeCacheVersion=0,this.laneAssignments=new Map,this.pendingMin=null,this.prevLanes=void 0,this.lanesChangedFlag=!1,this.lanesSettling=!1,this.pendingScrollAnchor=null,this.scrollRect=null,this.scrollOffset=null,this.scrollDirection=null,this._holdOffset=0,this._reportedOverscroll=!1,this._iosGesture=new Sc({getWindow:()=>this.targetWindow,now:()=>this.now(),tailStillMoving:()=>{let n=this.scrollState;if(n?.phase!=="queued"||this.pendingWrite!==null)return!1;let s=this._readElementOffset();return s===null||this._lastElementOffset===null||Math.abs(s-this._lastElementOffset)<1?!1:(this._lastElementOffset=s,n.samples=[...n.samples??[],{t:this.now(),offset:s}],!0)},onTailClosed:()=>{let n=this.scrollState;n?.phase==="queued"&&Fw(n.samples??[])&&(this.scrollState=null),this._flushHoldIfReady(!0),this._writeAwaitingCommand(),this._retryClampedAdjustment()}}),this._lastElementOffset=null,this.pendingWrite=null,this._clampedAdjustment=null,this.elementsCache=new Map,this._resizeBatch=null,this.now=()=>{var n,s,o;return((o=(s=(n=this.targetWindow)==null?void 0:n.performance)==null?void 0:s.now)==null?void 0:o.call(s))??Date.now()},this.observer=(()=>{let n=null,s=null,o=!1,i=!1,r=new Set,l=()=>{if(n)return n;let u=this.targetWindow;if(!u||!u.ResizeObserver)return null;let f=s=Uw(u);return n=new u.ResizeObserver(d=>{let h=()=>{let g={sync:!1};this._resizeBatch=g;try{d.forEach(a)}finally{this._resizeBatch=null,g.notify&&(this.notify(g.sync),this._noteClampMax(),this._flushHoldIfReady(!0),this._retryClampedAdjustment(),this.measureElement(null))}};if(this.options.useAnimationFrameWithResizeObserver)f.schedule(h);else{o=!0;try{h()}finally{o=!1}}})},a=u=>{let f=u.target,d=this.indexFromElement(f);if(!f.isConnected){this.observer.unobserve(f);for(let[h,g]of this.elementsCache)if(g===f){this.elementsCache.delete(h);break}return}this.isIndexInRange(d)&&this.shouldMeasureDuringScroll(d)&&this.resizeItem(d,this.options.measureElement(f,u,this))};return{disconnect:()=>{var u;(u=l())==null||u.disconnect(),s?.cancel(),r.clear(),i=!1,n=null,s=null},observe:u=>{let f=l();if(f){if(!o){f.observe(u,{box:"border-box"});return}r.add(u),i||(i=!0,s?.schedule(()=>{i=!1,r.forEach(d=>{d.isConnected&&n?.observe(d,{box:"border-box"})}),r.clear()}))}},unobserve:u=>{var f;r.delete(u),(f=l())==null||f.unobserve(u)}}})(),this.range=null,this.setOptions=n=>{var s;let o={debug:!1,initialOffset:0,overscan:1,paddingStart:0,paddingEnd:0,scrollPaddingStart:0,scrollPaddingEnd:0,horizontal:!1,getItemKey:pL,rangeExtractor:Ec,onChange:()=>{},measureElement:gL,initialRect:{width:0,height:0},scrollMargin:0,gap:0,indexAttribute:"data-index",initialMeasurementsCache:[],lanes:1,anchorTo:"start",followOnAppend:!1,scrollEndThreshold:1,isScrollingResetDelay:150,enabled:!0,isRtl:!1,useScrollendEvent:!1,useAnimationFrameWithResizeObserver:!1,laneAssignmentMode:"estimate",useCachedMeasurements:!1};for(let f in n){let d=n[f];d!==void 0&&(o[f]=d)}let i=this.options,r=null,l=null,a=!1;if(i!==void 0&&i.enabled&&o.enabled&&o.anchorTo==="end"&&this.scrollElement!==null){let f=i.count,d=o.count,h=this.getMeasurements(),g=((s=this._singleLaneMeasurements)==null?void 0:s.items)??h,v=E=>Rw(g[E]),_=f>0?v(0):null,k=f>0?v(f-1):null;if(d!==f||f>0&&d>0&&(o.getItemKey(0)!==_||o.getItemKey(d-1)!==k)){a=!0;let E=f>0?this.getVirtualItemForOffset(this.getScrollOffset())??h[0]:null;E&&(r=[E.key,this.getScrollOffset()-E.start]);let A=o.followOnAppend===!0?"auto":o.followOnAppend||null;A&&d>0&&this.isAtEnd(i.scrollEndThreshold)&&(f===0||o.getItemKey(d-1)!==k)&&(d>f||vL(f,d,v,o.getItemKey))&&(l=A)}}this.options=o,a&&(this.pendingMin=0,this.itemSizeCacheVersion++);let u=null;if(r&&this.scrollOffset!==null&&!this._awaitingCommandReadBack()){let[f,d]=r,h=this.getMeasurements(),{count:g,getItemKey:v}=this.options,_=0;for(;_<g&&v(_)!==f;)_++;if(_<g){let k=h[_];if(k){let T=Math.max(0,k.start+d);!l&&T!==this.scrollOffset&&(u=T-this.scrollOffset,this.scrollOffset=T)}}}l?this.pendingScrollAnchor={kind:"follow",behavior:l}:u!==null&&(this._canWriteScroll()?this.pendingScrollAnchor={kind:"anchor",delta:u}:(this._holdOffset+=u,this._followOffsetTarget(u)))},this.notify=n=>{var s,o;(o=(s=this.options).onChange)==null||o.call(s,this,n)},this.maybeNotify=Ao(()=>(this.calculateRange(),[this.isScrolling,this.range?this.range.startIndex:null,this.range?this.range.endIndex:null]),n=>{this.notify(n)},{key:!1,debug:()=>this.options.debug,initialDeps:[this.isScrolling,this.range?this.range.startIndex:null,this.range?this.range.endIndex:null]}),this.cleanup=()=>{var n;this.unsubs.filter(Boolean).forEach(s=>s()),this.unsubs=[],this.observer.disconnect(),this.rafId!=null&&this.targetWindow&&(this.targetWindow.cancelAnimationFrame(this.rafId),this.rafId=null),this.scrollState=null,(n=this._momentumStop)==null||n.restore(),this._momentumStop=null,this.isScrolling=!1,this.scrollDirection=null,this._holdOffset=0,this._reportedOverscroll=!1,this._clampedAdjustment=null,this.pendingWrite=null,this.scrollElement=null,this.targetWindow=null},this._didMount=()=>()=>{this.cleanup()},this._willUpdate=()=>{var n;let s=this.options.enabled?this.options.getScrollElement():null;if(this.scrollElement!==s){if(this.cleanup(),!s){this.maybeNotify();return}this.scrollElement=s,this.scrollElement&&"ownerDocument"in this.scrollElement?this.targetWindow=this.scrollElement.ownerDocument.defaultView:this.targetWindow=((n=this.scrollElement)==null?void 0:n.window)??null,this.elementsCache.forEach(i=>{this.observer.observe(i)}),this.unsubs.push(this.options.observeElementRect(this,i=>{this.scrollRect=i,this.maybeNotify()})),this.unsubs.push(this.options.observeElementOffset(this,(i,r)=>{var l,a,u,f;let d=r?this._elementMaxScrollOffset():null,h=this._reportedOverscroll;this._reportedOverscroll=i<0||d!==null&&i>d+1;let g=i;this._lastElementOffset=g,i=this._toLayoutOffset(i);let v=this._classifyScrollEvent(i,r,d);if(v==="spurious")return;v==="readBack"?i=this.pendingWrite.target:v==="clampedReadBack"&&((l=this.scrollState)==null?void 0:l.index)!=null&&i<this.getMaxScrollOffset()-1.5?this.scrollState.lastTargetOffset=i:Dw({kind:v,offset:i,command:this.scrollState,target:()=>this.getScrollStateTarget(this.scrollState)})&&(this.scrollState=null),this.pendingWrite=null,this._clampedAdjustment!==null&&Math.abs(i-this._clampedAdjustment.maxAtWrite)>=1.5&&(this._clampedAdjustment=null);let _=this.getScrollOffset(),k=this.scrollDirection;this.scrollDirection=r?_===i?this.scrollDirection:_<i?"forward":"backward":null,this.scrollOffset=i,this.isScrolling=r;let T=this.scrollState;if(T?.phase==="queued"&&v==="external"&&r)if(h||this._reportedOverscroll)T.samples=[];else{let y=this.now();T.samples=[...(T.samples??[]).filter(E=>y-E.t<=200),{t:y,offset:g}],(k!==null&&this.scrollDirection!==k||Nw(T.samples))&&(this.scrollState=null)}this._iosGesture.onScroll({isScrolling:r,ownReadBack:v==="readBack",moved:i!==_,external:v==="external"&&((a=this.scrollState)==null?void 0:a.phase)!=="smooth"&&((u=this.scrollState)==null?void 0:u.phase)!=="smoothFinishing"})&&((f=this.scrollState)==null?void 0:f.phase)==="queued"&&(this.scrollState=null),this._flushHoldIfReady(!0),this.scrollState&&this.scheduleScrollReconcile(),this.maybeNotify()})),"addEventListener"in this.scrollElement&&this.unsubs.push(this._iosGesture.listen(this.scrollElement)),this._scrollToOffset(this.getScrollOffset())}this._noteClampMax();let o=this.pendingScrollAnchor;this.pendingScrollAnchor=null,o&&this.scrollElement&&this.options.enabled&&(o.kind==="anchor"?this._canWriteScroll()?rl(this.scrollState)&&!Es(this.getScrollOffset()-o.delta,this.scrollState.lastTargetOffset)||(this._followOffsetTarget(o.delta),this._scrollToOffset(this.getScrollOffset())):(this._holdOffset+=o.delta,this._followOffsetTarget(o.delta),this.notify(!1)):this.scrollToEnd({behavior:o.behavior})),this._flushHoldIfReady(!1),this._retryClampedAdjustment()},this._classifyScrollEvent=(n,s,o)=>{var i;return Iw({offset:n,isScrolling:s,elementMax:o,holdOffset:this._holdOffset,scrollOffset:this.scrollOffset,pendingWrite:this.pendingWrite,clampedMaxAtWrite:((i=this._clampedAdjustment)==null?void 0:i.maxAtWrite)??null})},this._retryClampedAdjustment=()=>{if(this._clampedAdjustment===null||!this.scrollElement||!this.options.enabled||!this._canWriteScroll())return;let{target:n,maxAtWrite:s}=this._clampedAdjustment,o=this.getMaxScrollOffset();o>s+.5&&(this._clampedAdjustment=n>o+.5?{target:n,maxAtWrite:o}:null,this._scrollToOffset(n))},this._writeAwaitingCommand=()=>{let n=this.scrollState;if(n===null||n.phase!=="queued")return;let{behavior:s}=n;this.getMeasurements();let o=this.getScrollStateTarget(n);n.lastTargetOffset=o,this._clampedAdjustment=null,n.phase=qw(s,n.index!=null&&Es(o,this.getScrollOffset())),this._scrollToOffset(o,{behavior:s}),this.scheduleScrollReconcile()},this._readElementOffset=()=>{let n=this.scrollElement;if(n==null)return null;let{horizontal:s,isRtl:o}=this.options;return typeof n.scrollTop=="number"?s?n.scrollLeft*(o&&-1||1):n.scrollTop:typeof n.scrollY=="number"?s?n.scrollX:n.scrollY:null},this._canWriteScroll=()=>!(il()&&this._iosGesture.inMotion())&&!this._reportedOverscroll,this._flushHoldIfReady=n=>{var s;if(this._holdOffset===0||!this.scrollElement||!this.options.enabled||!this._canWriteScroll()||((s=this.scrollState)==null?void 0:s.phase)==="smooth")return;this._holdOffset=0,this.scrollOffset!==null&&this.scrollOffset<0&&(this.scrollOffset=0),this.notify(n);let o=this.getCommandWrittenOffset()??this.getScrollOffset();this._clampedAdjustment=this._clampedBy(o),this._scrollToOffset(o)},this.rafId=null,this.getSize=()=>this.options.enabled?(this.scrollRect=this.scrollRect??this.options.initialRect,this.scrollRect[this.options.horizontal?"width":"height"]):(this.scrollRect=null,0),this.getScrollOffset=()=>this.options.enabled?(this.scrollOffset=this.scrollOffset??(typeof this.options.initialOffset=="function"?this.options.initialOffset():this.options.initialOffset),this.scrollOffset):(this.scrollOffset=null,0),this.getMeasurementOptions=Ao(()=>[this.options.count,this.options.paddingStart,this.options.scrollMargin,this.options.getItemKey,this.options.enabled,this.options.lanes,this.options.laneAssignmentMode,this.options.gap],(n,s,o,i,r,l,a,u)=>(this.prevLanes!==void 0&&this.prevLanes!==l&&(this.lanesChangedFlag=!0),this.prevLanes=l,this.pendingMin=null,{count:n,paddingStart:s,scrollMargin:o,getItemKey:i,enabled:r,lanes:l,laneAssignmentMode:a,gap:u}),{key:!1}),this.isIndexInRange=n=>n>=0&&n<this.options.count,this.getMeasurements=Ao(()=>[this.getMeasurementOptions(),this.itemSizeCacheVersion],({count:n,paddingStart:s,scrollMargin:o,getItemKey:i,enabled:r,lanes:l,laneAssignmentMode:a,gap:u},f)=>{var d;let h=this.itemSizeCache;if(!r)return this.measurementsCache=[],this._singleLaneMeasurements=null,this.itemSizeCache.clear(),this.laneAssignments.clear(),[];if(this.laneAssignments.size>n)for(let y of this.laneAssignments.keys())y>=n&&this.laneAssignments.delete(y);this.lanesChangedFlag&&(this.lanesChangedFlag=!1,this.lanesSettling=!0,this.measurementsCache=[],this._singleLaneMeasurements=null,this.itemSizeCache.clear(),this.laneAssignments.clear(),this.pendingMin=null),this.measurementsCache.length===0&&!this.lanesSettling&&(this.measurementsCache=this.options.initialMeasurementsCache,this.measurementsCache.forEach(y=>{this.itemSizeCache.set(y.key,y.size)}));let g=this.lanesSettling?0:this.pendingMin??0;if(this.pendingMin=null,this.lanesSettling&&this.measurementsCache.length===n&&(this.lanesSettling=!1),l===1){let y=n*2,E=(d=this._singleLaneMeasurements)==null?void 0:d.flat;if(!E||E.length<y){let G=new Float64Array(y);E&&g>0&&G.set(E.subarray(0,g*2)),E=G}let A=g===0?new Array(n):this._singleLaneMeasurements.items.slice(),U;if(g===0)U=s+o;else{let G=g-1;U=E[G*2]+E[G*2+1]+u}for(let G=g;G<n;G++){let K=i(G);A[G]=K;let se=h.get(K),J=typeof se=="number"?se:this.options.estimateSize(G);E[G*2]=U,E[G*2+1]=J,U+=J+u}this._singleLaneMeasurements={flat:E,items:A};let F=Lw(A,E);return this.measurementsCache=F,F}let v=this.measurementsCache.slice(0,g),_=new Array(l).fill(void 0),k=new Float64Array(l),T=0;for(let y=0;y<g;y++){let E=v[y];E&&(_[E.lane]===void 0&&T++,_[E.lane]=y,k[E.lane]=E.end)}for(let y=g;y<n;y++){let E=i(y),A=this.laneAssignments.get(y),U,F,G=a==="estimate"||h.has(E);if(A!==void 0&&this.options.lanes>1){U=A;let N=_[U],Q=N!==void 0?v[N]:void 0;F=Q?Q.end+u:s+o}else if(T===l){let N=0,Q=k[0],B=_[0];for(let Z=1;Z<l;Z++){let X=k[Z];(X<Q||X===Q&&_[Z]<B)&&(N=Z,Q=X,B=_[Z])}U=N,F=Q+u,G&&this.laneAssignments.set(y,U)}else U=y%this.options.lanes,F=s+o,G&&this.laneAssignments.set(y,U);let K=h.get(E),se=typeof K=="number"?K:this.options.estimateSize(y),J=F+se;v[y]={index:y,start:F,size:se,end:J,key:E,lane:U},_[U]===void 0&&T++,_[U]=y,k[U]=J}return this.measurementsCache=v,v},{key:!1,debug:()=>this.options.debug}),this.calculateRange=Ao(()=>[this.getMeasurements(),this.getSize(),this.getScrollOffset(),this.options.lanes,this._getLayoutTotalSize()+this.options.scrollMargin],(n,s,o,i,r)=>{if(n.length===0||s===0)return this.range=null,null;let l=Math.max(r-s,0);return this.range=wL(n,s,Math.min(o,l),i,i===1&&this._singleLaneMeasurements!==null?this._singleLaneMeasurements.flat:null),this.range},{key:!1,debug:()=>this.options.debug}),this.getVirtualIndexes=Ao(()=>{let n=null,s=null,o=this.calculateRange();return o&&(n=o.startIndex,s=o.endIndex),this.maybeNotify.updateDeps([this.isScrolling,n,s]),[this.options.rangeExtractor,this.options.overscan,this.options.count,n,s,this.options.lanes]},(n,s,o,i,r,l)=>i===null||r===null?[]:n({startIndex:i,endIndex:r,overscan:s,count:o,lanes:l}),{key:!1,debug:()=>this.options.debug}),this.indexFromElement=n=>{let s=this.options.indexAttribute,o=n.getAttribute(s);return o?parseInt(o,10):(console.warn(`Missing attribute name '${s}={index}' on measured element.`),-1)},this.shouldMeasureDuringScroll=n=>{var s;if(!rl(this.scrollState))return!0;let o=this.scrollState.index??((s=this.getVirtualItemForOffset(this.scrollState.lastTargetOffset))==null?void 0:s.index);if(o!==void 0&&this.range){let i=Math.max(this.options.overscan,Math.ceil((this.range.endIndex-this.range.startIndex)/2)),r=Math.max(0,o-i),l=Math.min(this.options.count-1,o+i);return n>=r&&n<=l}return!0},this.measureElement=n=>{if(!n){this.elementsCache.forEach((r,l)=>{r.isConnected||(this.observer.unobserve(r),this.elementsCache.delete(l))});return}let s=this.indexFromElement(n);if(!this.isIndexInRange(s))return;let o=this.options.getItemKey(s),i=this.elementsCache.get(o);i!==n&&(i&&this.observer.unobserve(i),this.observer.observe(n),this.elementsCache.set(o,n)),n.isConnected&&(!this.isScrolling||this.scrollState)&&this.shouldMeasureDuringScroll(s)&&this.resizeItem(s,this.options.measureElement(n,void 0,this))},this.resizeItem=(n,s)=>{var o,i,r;if(!this.isIndexInRange(n))return;(o=this._resizeBatch)!=null&&o.sync&&this.getMeasurements();let l,a,u,f=(i=this._singleLaneMeasurements)==null?void 0:i.flat;if(this.options.lanes===1&&f!=null)u=this.options.getItemKey(n),a=f[n*2],l=f[n*2+1];else{let g=this.measurementsCache[n];if(!g)return;u=g.key,a=g.start,l=g.size}let d=this.itemSizeCache.get(u)??l,h=s-d;if(h!==0){let g=this.options.anchorTo==="end"&&!rl(this.scrollState)&&this.getVirtualDistanceFromEnd()<=this.options.scrollEndThreshold,v=g?this._getLayoutTotalSize():0,_=this.getScrollOffset(),T=!this.itemSizeCache.has(u)?a<_:a+d<=_&&this.scrollDirection!=="backward",y=!rl(this.scrollState)&&(this.shouldAdjustScrollPositionOnItemSizeChange!==void 0?this.shouldAdjustScrollPositionOnItemSizeChange(this.measurementsCache[n]??{index:n,key:u,start:a,size:l,end:a+l,lane:0},h,this):T);(this.pendingMin===null||n<this.pendingMin)&&(this.pendingMin=n),this.itemSizeCache.set(u,s),this.itemSizeCacheVersion++;let E=!1;if(this._awaitingCommandReadBack()||(g?E=this.applyScrollAdjustment(this._getLayoutTotalSize()-v):y&&(E=this.applyScrollAdjustment(h))),this._resizeBatch){this._resizeBatch.notify=!0,(r=this._resizeBatch).sync||(r.sync=E);return}this.notify(E),this._noteClampMax(),this._flushHoldIfReady(!0),this._retryClampedAdjustment()}},this.getVirtualItems=Ao(()=>[this.getVirtualIndexes(),this.getMeasurements(),this._holdOffset],(n,s,o)=>{let i=[];for(let r=0,l=n.length;r<l;r++){let a=n[r],u=s[a];i.push(o===0?u:{...u,start:u.start-o,end:u.end-o})}return i},{key:!1,debug:()=>this.options.debug}),this.getVirtualItemForOffset=n=>{var s;let o=this.getMeasurements();if(o.length===0)return;let i=(s=this._singleLaneMeasurements)==null?void 0:s.flat,r=this.options.lanes===1&&i!=null,l=jw(0,o.length-1,r?a=>i[a*2]:a=>Bd(o[a]).start,n);return Bd(o[l])},this._noteClampMax=()=>{if(!this._awaitingCommandReadBack())return;let n=this._elementMaxScrollOffset();if(n===null)return;let s=this.pendingWrite,o=Math.max(n,0)+this._holdOffset;if(o>=s.target)return;let i=s.lowMaxes??(s.lowMaxes=[]);i[i.length-1]!==o&&i.push(o)},this.getMaxScrollOffset=()=>(this._elementMaxScrollOffset()??0)+this._holdOffset,this._toLayoutOffset=n=>{var s;let o=n+this._holdOffset;return((s=this.pendingScrollAnchor)==null?void 0:s.kind)==="anchor"&&(o+=this.pendingScrollAnchor.delta),o},this._elementMaxScrollOffset=()=>{let n=this.scrollElement;if(n===null)return null;if("scrollHeight"in n)return this.options.horizontal?n.scrollWidth-n.clientWidth:n.scrollHeight-n.clientHeight;if("document"in n){let s=n.document.documentElement;return this.options.horizontal?s.scrollWidth-n.innerWidth:s.scrollHeight-n.innerHeight}return null},this._momentumStop=null,this._stopMomentum=n=>{let s=this.scrollElement,o=this.targetWindow;if(s===null||o===null)return;let i="document"in s?s.document.scrollingElement:s;if(!i?.style)return;if(this._momentumStop){this._momentumStop.done=n;return}let{style:r}=i,l=this.options.horizontal?"overflow-x":"overflow-y",a=r.getPropertyValue(l),u=r.getPropertyPriority(l),f=()=>this.options.horizontal?i.clientHeight:i.clientWidth,d=f();if(r.setProperty(l,"hidden","important"),f()!==d){r.setProperty(l,a,u);return}let h={restore:()=>r.getPropertyValue(l)!=="hidden"||r.getPropertyPriority(l)!=="important"?!1:(r.setProperty(l,a,u),!0),done:n};this._momentumStop=h,o.requestAnimationFrame(()=>o.requestAnimationFrame(()=>{this._momentumStop===h&&(this._momentumStop=null,h.restore()&&h.done())}))},this._clampedBy=n=>{let s=this._elementMaxScrollOffset();if(s===null)return null;let o=s+this._holdOffset;return n>o+.5?{target:n,maxAtWrite:o}:null},this.getVirtualDistanceFromEnd=()=>Math.max(this._getLayoutTotalSize()+this.options.scrollMargin-this.getSize()-this.getScrollOffset(),0),this.getDistanceFromEnd=()=>Math.max(this.getMaxScrollOffset()-this.getScrollOffset(),0),this.isAtEnd=(n=this.options.scrollEndThreshold)=>this.getDistanceFromEnd()<=n,this.getOffsetForAlignment=(n,s,o=0)=>{if(!this.scrollElement)return 0;let i=this.getSize(),r=this.getScrollOffset();s==="auto"&&(s=n>=r+i?"end":"start"),s==="center"?n+=(o-i)/2:s==="end"&&(n-=i);let l=this.getMaxScrollOffset();return Math.max(Math.min(l,n),0)},this.getOffsetForIndex=(n,s="auto")=>{n=Math.max(0,Math.min(n,this.options.count-1));let o=this.getSize(),i=this.getScrollOffset(),r=this.getMeasurements()[n];if(!r)return;if(s==="auto")if(r.end>=i+o-this.options.scrollPaddingEnd)s="end";else if(r.start<=i+this.options.scrollPaddingStart)s="start";else return[i,s];if(s==="end"&&n===this.options.count-1){let a=this.getMaxScrollOffset(),u=a-this.options.paddingEnd+this.options.scrollPaddingEnd;return[Math.max(Math.min(u,a),0),s]}let l=s==="end"?r.end+this.options.scrollPaddingEnd:r.start-this.options.scrollPaddingStart;return[this.getOffsetForAlignment(l,s,r.size),s]},this.scrollToOffset=(n,{align:s="start",behavior:o="auto"}={})=>{this._startScroll({index:null,align:s},this.getOffsetForAlignment(n,s),o,"absolute")},this.scrollToIndex=(n,{align:s="auto",behavior:o="auto"}={})=>{n=Math.max(0,Math.min(n,this.options.count-1));let i=this.getOffsetForIndex(n,s);if(!i)return;let[r,l]=i;this._startScroll({index:n,align:l},r,o,"absolute")},this.scrollBy=(n,{behavior:s="auto"}={})=>{let o=this.getOffsetForAlignment((this.getCommandWrittenOffset()??this.getScrollOffset())+n,"start");this._startScroll({index:null,align:"start"},o,s,"relative")},this.scrollToEnd=({behavior:n="auto"}={})=>{if(this.options.count>0){this._startScroll({index:this.options.count-1,align:"end",toEnd:!0},Math.max(this.getMaxScrollOffset(),0),n,"absolute");return}this.scrollToOffset(Math.max(this.getTotalSize()-this.getSize(),0),{behavior:n})},this.cancelScroll=()=>{this.rafId!=null&&this.targetWindow&&(this.targetWindow.cancelAnimationFrame(this.rafId),this.rafId=null),this.scrollState=null},this.getTotalSize=()=>Math.max(this._getLayoutTotalSize()-this._holdOffset,0),this._getLayoutTotalSize=()=>{var n,s;let o=this.getMeasurements(),i;if(o.length===0)i=this.options.paddingStart;else if(this.options.lanes===1){let r=o.length-1,l=(n=this._singleLaneMeasurements)==null?void 0:n.flat;l!=null?i=l[r*2]+l[r*2+1]:i=((s=o[r])==null?void 0:s.end)??0}else{let r=Array(this.options.lanes).fill(null),l=o.length-1;for(;l>=0&&r.some(a=>a===null);){let a=o[l];r[a.lane]===null&&(r[a.lane]=a.end),l--}i=Math.max(...r.filter(a=>a!==null))}return Math.max(i-this.options.scrollMargin+this.options.paddingEnd,0)},this.takeSnapshot=()=>{let n=[];if(this.itemSizeCache.size===0)return n;let s=this.getMeasurements();for(let o of s)o&&this.itemSizeCache.has(o.key)&&n.push({index:o.index,key:o.key,start:o.start,size:o.size,end:o.end,lane:o.lane});return n},this._scrollToOffset=(n,{adjustments:s,behavior:o}={})=>{let i={target:n+(s??0),smooth:o==="smooth"};return this.pendingWrite=i,this.options.scrollToFn(n-this._holdOffset,{behavior:o,adjustments:s},this),i},this.getCommandWrittenOffset=()=>this.scrollState!==null&&this.pendingWrite!==null&&!this.pendingWrite.smooth?this.pendingWrite.target:null,this._awaitingCommandReadBack=()=>{let n=this.getCommandWrittenOffset();return!(il()&&this._iosGesture.dragging())&&n!==null&&!Es(n,this.getScrollOffset())},this._followOffsetTarget=n=>{this.scrollState!==null&&this.scrollState.index==null&&(this.scrollState.lastTargetOffset+=n)},this.measure=()=>{this.pendingMin=null,this.itemSizeCache.clear(),this.laneAssignments.clear(),this.itemSizeCacheVersion++,this.notify(!1)},this.setOptions(e)}get scrollAdjustments(){return 0}applyScrollAdjustment(e,n){if(e===0)return!1;if(this._followOffsetTarget(e),this._canWriteScroll()){let s=this.getScrollOffset();this._clampedAdjustment=this._clampedBy(s+e);let o=this._scrollToOffset(s,{adjustments:e,behavior:n});return this.scrollOffset!==null&&(this.pendingWrite===o&&(this.scrollOffset+=e),this.scrollOffset<0&&(this.scrollOffset=0)),!0}else return this._holdOffset+=e,this.scrollOffset!==null&&(this.scrollOffset+=e),!0}scheduleScrollReconcile(){if(!this.targetWindow){this.scrollState=null;return}this.rafId==null&&(this.rafId=this.targetWindow.requestAnimationFrame(()=>{this.rafId=null,this.reconcileScroll()}))}getScrollStateTarget(e){let n=e.toEnd?[Math.max(this.getMaxScrollOffset(),0)]:e.index!=null?this.getOffsetForIndex(e.index,e.align):void 0;return n?n[0]:e.lastTargetOffset}reconcileScroll(){if(!this.scrollState||!this.scrollElement)return;if(this.now()-this.scrollState.startedAt>5e3){this.scrollState=null;return}if(this.scrollState.phase==="queued"){this.scheduleScrollReconcile();return}this.getMeasurements();let s=this.getScrollStateTarget(this.scrollState),o=this.scrollState.index==null?1:this.options.useAnimationFrameWithResizeObserver?3:2,i=s!==this.scrollState.lastTargetOffset;if(!i&&Es(s,this.getScrollOffset())){if(this.scrollState.phase==="smooth"?this.scrollState.phase="smoothLanded":this.scrollState.phase==="smoothFinishing"&&(this.scrollState.phase="instant"),this.scrollState.stableFrames++,this.scrollState.stableFrames>=o){this.getScrollOffset()!==s&&this._scrollToOffset(s,{behavior:"auto"}),this.scrollState=null;return}}else if(this.scrollState.stableFrames=0,i){let r=this.getSize()||600,l=Math.abs(s-this.getScrollOffset()),a=rl(this.scrollState)&&l>r;this.scrollState.lastTargetOffset=s,a?this.scrollState.phase="smooth":this.scrollState.phase==="smooth"?this.scrollState.phase="smoothFinishing":this.scrollState.phase==="smoothLanded"&&(this.scrollState.phase="instant"),this._scrollToOffset(s,{behavior:a?"smooth":"auto"})}this.scheduleScrollReconcile()}_startScroll(e,n,s,o){this.pendingScrollAnchor=null,this._clampedAdjustment=null;let i=this._iosGesture.tail();if(o==="absolute"&&i!==null){if(i==="fling"&&zw()){this._stopMomentum(()=>{let r=this.scrollState;r?.phase!=="queued"||this._iosGesture.tail()!=="fling"||this._reportedOverscroll||(this._iosGesture.end(),this._flushHoldIfReady(!0),this._writeAwaitingCommand())}),this.scrollState={...e,startedAt:this.now(),lastTargetOffset:n,stableFrames:0,phase:"queued",behavior:s,samples:[]},this.scheduleScrollReconcile();return}this._iosGesture.end()}this.scrollState={...e,startedAt:this.now(),lastTargetOffset:n,stableFrames:0,behavior:s,phase:qw(s,e.index!=null&&Es(n,this.getScrollOffset()))},this._scrollToOffset(n,{behavior:s}),this.scheduleScrollReconcile()}},jw=(t,e,n,s)=>{for(;t<=e;){let o=(t+e)/2|0,i=n(o);if(i<s)t=o+1;else if(i>s)e=o-1;else return o}return t>0?t-1:0};function bL(t,e,n){let s=0;for(;s<=e;){let o=(s+e)/2|0,i=t[o*2];if(i<n)s=o+1;else if(i>n)e=o-1;else return o}return s>0?s-1:0}function wL(t,e,n,s,o){let i=t.length-1;if(t.length<=s)return{startIndex:0,endIndex:i};if(s===1&&o!==null){let u=bL(o,i,n),f=u,d=n+e;for(;f<i&&o[f*2]+o[f*2+1]<d;)f++;return{startIndex:u,endIndex:f}}let l=jw(0,i,u=>t[u].start,n),a=l;if(s===1)for(;a<i&&t[a].end<n+e;)a++;else if(s>1){let u=Array(s).fill(0);for(;a<i&&u.some(d=>d<n+e);){let d=t[a];u[d.lane]=d.end,a++}let f=Array(s).fill(n+e);for(;l>=0&&f.some(d=>d>=n);){let d=t[l];f[d.lane]=d.start,l--}l=Math.max(0,l-l%s),a=Math.min(i,a+(s-1-a%s))}return{startIndex:l,endIndex:a}}function Cc(t){let[,e]=M(0),n=()=>e(i=>i+1),s=P(null),o={observeElementOffset:Hd,scrollToFn:Gd,observeElementRect:(i,r)=>jd(i,l=>{r(l),n()}),rangeExtractor:co(i=>yL(Ec(i),s.current),[]),...t,onChange:n};return s.current?s.current.setOptions(o):s.current=new ll(o),pe(()=>s.current._didMount(),[]),pe(()=>s.current._willUpdate()),s.current}function yL(t,e){let n=_L(e);return n<0||n>=t[0]&&n<=t.at(-1)?t:n<t[0]?[n,...t]:[...t,n]}function _L({scrollElement:t,elementsCache:e,options:{count:n,getItemKey:s}}){let{activeElement:o}=document;if(!t?.contains(o))return-1;let i=o.closest("[data-index]"),[r]=[...e].find(([,a])=>a===i)??[];if(r===void 0)return-1;let l=Number(i.dataset.index);if(l<n&&s(l)===r)return l;for(let a=0;a<n;a+=1)if(s(a)===r)return a;return-1}var Hw=15;function Gw({state:t}){let{transcript:e}=t,{reading:n}=e,s=P(null),o=we(null),i=kL(t),r=fo(()=>Aw(e,t.rounds.value,i.items.value,i.notes.value)).value,l=n.left.value===null,a=Cc({count:r.length,getScrollElement:()=>s.current,getItemKey:co(g=>r[g].key,[r]),estimateSize:g=>Mw(e,r[g]),initialOffset:()=>Sw(a,r,n.place)??Number.MAX_SAFE_INTEGER,initialMeasurementsCache:n.place?.sizes,overscan:6,anchorTo:"end",followOnAppend:l,scrollEndThreshold:l?1:-1,paddingStart:8,paddingEnd:24}),u=xw(e,a,s);CL(e,a,r.length);let f=aw(e,a,r),d=e.loading.value!==null,h=e.hasEarlier.value||e.hasLater.value?-1:r.length;return c`<div class="transcript">
    <${TL} transcript=${e} place=${u} />
    <div
      ref=${s}
      class="transcript-box"
      role=${r.length?"feed":"region"}
      aria-label="Messages"
      aria-busy=${d}
      tabindex="0"
      ...${u.handlers}
    >
      ${r.length===0&&!d&&c`<${AL} />`}
      <${xs.Provider} value=${n.folds}><${ji.Provider} value=${o}>
        <div class="rows" style=${{height:`${a.getTotalSize()}px`}}>
          ${a.getVirtualItems().map(({key:g,index:v,start:_})=>{let k=r[v];return c`<article
              key=${g}
              ref=${a.measureElement}
              class="${xL(k)} ${g===f?"linked":""}"
              style=${{top:`${_}px`}}
              data-index=${v}
              aria-posinset=${v+1}
              aria-setsize=${h}
              ...${EL(e,k)}
            >
              <${SL} state=${t} row=${k} isLatest=${k.end===i.items.value.at(-1)} />
            </article>`})}
        </div>
      <//><//>
    </div>
    ${o.value&&c`<${Xb} path=${o.value} onClose=${()=>o.value=null} />`}
    <${OL} transcript=${e} place=${u} />
  </div>`}function kL(t){let{order:e,hasLater:n}=t.transcript,s=yi(t),o=l=>t.transcript.message(e.value.at(l))?.peek().seq,[i,r]=[o(0),n.value?o(-1):1/0];return O(()=>s.watch(),[s]),O(()=>{i!==void 0&&s.cover(i,r)},[i,r]),s}function xL({round:t,end:e,note:n,isAnswer:s}){return n?"row note-row":t?"row round-rule":e?"row run-end-row":s?"row answer":"row"}function SL({state:t,row:{id:e,isMore:n,round:s,end:o,note:i,hasAnswer:r},isLatest:l}){return s?c`<${Ew} sessionId=${t.id} round=${s} />`:i?c`<${Vw(i)[0]} state=${t} note=${i} />`:o?c`<${Cw} ...${{state:t,end:o,isLatest:l,hasAnswer:r}} />`:c`<${yw} ...${{state:t,id:e,isMore:n}} />`}function Vw({subagent_id:t,command_id:e,server:n}){return t?[lw,"Sub-agent"]:e?[iw,"Background command"]:[rw,`MCP server ${L(n)}`]}function EL(t,{id:e,round:n,end:s,note:o}){if(o)return{"data-note":o.seq,"aria-label":Vw(o)[1]};if(s)return{"data-run-end":s.seq,"aria-label":`End of a run: ${s.outcome.replace("_"," ")}`};if(n)return{"data-round":n.round,"aria-label":`Compaction round ${n.round}`};let i=t.message(e)?.peek();return i?{"data-message-id":e,"data-role":i.role,"aria-label":zd(i)}:{}}function CL(t,e,n){let{hasEarlier:s,hasLater:o,loading:i,problem:r}=t,l=!i.value&&!r.value,a=s.value,u=o.value;pe(()=>{let{range:f}=e;!l||!f||(a&&f.startIndex<Hw?t.loadEarlier().catch(()=>{}):u&&f.endIndex>n-Hw&&t.loadLater().catch(()=>{}))})}function TL({transcript:t,place:e}){let n=t.problem.value,s=()=>{t.problem.value=null,e.focus()};return n?c`<${ge} problem=${n} onRetry=${s} />`:t.loading.value?c`<div class="transcript-loading" role="status">Loading messages…</div>`:null}function OL({transcript:t,place:e}){let n=t.reading.left.value;if(!(n!==null||t.hasLater.value))return null;let o=n===null?0:t.arrived.value-n;return c`<div class="transcript-ways">
    <${q} onClick=${e.toFirst}>First message<//>
    <${q} kind="primary" onClick=${e.toNewest}>
      Jump to newest${o>0?c` <span class="numbers">(${x(o)} new)</span>`:""}
    <//>
  </div>`}function AL(){return c`<div class="transcript-empty">
    <h2>No messages yet</h2>
    <p>Write below what the agent should do. It starts as soon as you send the message.</p>
  </div>`}function Kw({state:t}){return c`<${Ob} state=${t} />
    <${Ab} state=${t} />
    <${Gw} state=${t} />
    <${Gb} state=${t} />`}var ML=200,Ks=1e4,Ac={Session:["session.created","session.updated","session.deleted","session.running","session.idle","session.recovered","source.started","source.completed","source.failed"],Messages:["message.queued","message.edited","message.withdrawn","message.dequeued","message.created"],Steps:["step.started","step.retrying","step.finished","text.completed","reasoning.completed","plan.updated"],Tools:["tool.call","tool.result","approval.requested","approval.resolved","command.started","command.ended","subagent.started","subagent.finished","mcp.ready","mcp.failed"],Workspace:["checkpoint.failed","workspace.restored"],Context:["prune.completed","compaction.started","compaction.completed","compaction.failed","compaction.cancelled","compaction.reverted","compaction.discarded"]},Oc=class{items=C([]);hasEarlier=C(!1);hasLater=C(!1);loading=C(!1);problem=C(null);#e;#t;#n=0;#s=null;#o=0;#i=null;constructor(e,n){this.#e=e,this.#t=n}async start(){this.#o+=1,this.#i=this.#e.follower.peek();let e=this.#e.log.peek(),n=e.at(-1)?.seq??this.#i?.lastId??this.#e.session.peek().last_seq;me(()=>{this.items.value=Tc(e.filter(this.#c)),this.hasLater.value=!1,this.#n=n,this.#r(String(e[0]?.seq??n+1))}),await this.loadEarlier()}follow(e){if(e.length===0||this.hasLater.peek())return;if(e[0].seq>this.#n+1||this.#i!==this.#e.follower.peek()){this.start();return}let n=e.filter(({seq:o})=>o>this.#n);if(n.length===0)return;this.#n=e.at(-1).seq;let s=Tc([...this.items.peek(),...n.filter(this.#c)]);s.length>Ks&&this.#r(String(s.at(-Ks).seq)),this.items.value=s.slice(-Ks)}waiting(e){return e.filter(n=>n.seq>this.#n&&this.#c(n)).length}async loadEarlier(){let e=this.#o,n=0;for(;this.#s!==null&&n===0;){let s=await this.#a({order:"desc",after:this.#s});if(s===null||e!==this.#o)return;n=s.items.length,me(()=>{this.#r(s.next_cursor),this.#l(Tc([...s.items.toReversed(),...this.items.peek()]))})}}#l(e){this.items.value=e.slice(0,Ks),!(e.length<=Ks)&&(this.hasLater.value=!0,this.#n=this.items.peek().at(-1).seq)}async loadLater(){let e=this.#o,n=await this.#a({after:String(this.#n)});n===null||e!==this.#o||me(()=>{let s=Tc([...this.items.peek(),...n.items]);s.length>Ks&&this.#r(String(s.at(-Ks).seq)),this.items.value=s.slice(-Ks),this.#n=n.next_cursor===null?n.last_seq:Number(n.next_cursor),this.hasLater.value=n.next_cursor!==null})}#r(e){this.#s=e,this.hasEarlier.value=e!==null&&Number(e)!==1}async#a(e){if(this.loading.peek())return null;this.loading.value=!0,this.problem.value=null;let n=new URLSearchParams({...e,limit:ML});this.#t.length&&n.set("types",this.#t.join(","));try{return await W(`${I(this.#e.id,"log")}?${n}`)}catch(s){return this.problem.value=s,null}finally{this.loading.value=!1}}#c=({type:e})=>this.#t.length===0||this.#t.includes(e)};function Tc(t){let e=0;return t.filter(({seq:n})=>{let s=n>e;return e=Math.max(e,n),s})}function Yw({types:t,onTypes:e,text:n,onText:s}){let o=le();return c`<${RL} types=${t} onTypes=${e} />
    <div class="event-search">
      <label class="hidden" for=${o}>Filter events</label>
      <input
        id=${o}
        type="search"
        placeholder="Filter events"
        value=${n}
        onInput=${i=>s(i.currentTarget.value)}
      />
    </div>`}function RL({types:t,onTypes:e}){let[n,s]=M(!1),o=P(null),i=le();O(()=>{if(!n)return;let a=u=>!o.current.contains(u.target)&&s(!1);return document.addEventListener("pointerdown",a),()=>document.removeEventListener("pointerdown",a)},[n]);let r=a=>{a.key!=="Escape"||!n||(s(!1),o.current.querySelector("button").focus())},l=a=>e(t.includes(a)?t.filter(u=>u!==a):[...t,a]);return c`<div class="type-chooser" ref=${o} onKeyDown=${r}>
    <button type="button" aria-expanded=${n} aria-controls=${i} onClick=${()=>s(!n)}>
      ${t.length===0?"All types":t.length===1?t[0]:`${t.length} types`}
      ${" "}<span aria-hidden="true">▾</span>
    </button>
    <div id=${i} class="type-panel" hidden=${!n}>
      ${Object.entries(Ac).map(([a,u])=>c`<${LL} key=${a} ...${{group:a,names:u,types:t,toggle:l}} />`)}
      <button type="button" disabled=${t.length===0} onClick=${()=>e([])}>Show all types</button>
    </div>
  </div>`}function LL({group:t,names:e,types:n,toggle:s}){return c`<fieldset>
    <legend>${t}</legend>
    ${e.map(o=>c`<label class="check" key=${o}>
        <input type="checkbox" checked=${n.includes(o)} onChange=${()=>s(o)} />
        <code>${o}</code>
      </label>`)}
  </fieldset>`}var PL=240,IL=new Intl.DateTimeFormat("en",{hour:"2-digit",minute:"2-digit",second:"2-digit",fractionalSecondDigits:3,hourCycle:"h23"}),Vd=new WeakMap;function Kd({data:t}){if(!Vd.has(t)){let{session_id:e,at:n,...s}=t;Vd.set(t,JSON.stringify(s))}return Vd.get(t)}function Zw({event:t,isOpen:e,onToggle:n}){let{seq:s,type:o,data:i}=t,r=()=>_n(JSON.stringify({seq:s,type:o,data:i},null,2)).then(()=>ve("Copied."));return c`<div class="event-line">
      <button type="button" class="event-head" aria-expanded=${e} onClick=${n}>
        <span class="fold-mark" aria-hidden="true">${e?"▾":"▸"}</span>
        <span class="event-seq numbers">${s}</span>
        <time class="event-time numbers dim" datetime=${i.at}>${IL.format(new Date(i.at))}</time>
        <span class="event-type">${L(o)}</span>
        <span class="event-brief dim">${L(Kd(t).slice(0,PL))}</span>
      </button>
      <${q} kind="plain" aria-label=${`Copy event ${s}`} onClick=${r}>Copy<//>
    </div>
    ${e&&c`<${ft} label=${`Event ${s} as JSON`} text=${ue(JSON.stringify(i,null,2))} />`}`}var DL=4,Jw=20,NL=32,FL=new Set(Object.values(Ac).flat());function Qw({state:t}){let{types:e="",q:n=""}=Be.value.query,s=de(()=>e.split(",").filter(u=>FL.has(u)),[e]),o=de(()=>new Oc(t,s),[t,s]),i=we(!0);O(()=>{i.value=!0,o.start()},[o]);let r=t.log.value;O(()=>{i.peek()&&o.follow(r)},[o,r,i.value]);let l=zL(o.items.value,n),a=P(null);return c`<div class="events-view">
    <div class="toolbar">
      <${Yw}
        types=${s}
        onTypes=${u=>Pn({types:u.join()})}
        text=${n}
        onText=${u=>Pn({q:u})}
      />
      <${jL} state=${t} />
    </div>
    <p class="events-count dim">
      ${WL(o,l,n)} Streaming deltas aren't stored.
    </p>
    ${o.problem.value&&c`<${ge} problem=${o.problem.value} onRetry=${()=>o.loadEarlier()} />`}
    <${BL} key=${s.join()} ...${{box:a,log:o,items:l,follows:i}} isSearched=${n!==""} />
    <${UL} ...${{box:a,log:o,live:r,follows:i}} isSearched=${n!==""} />
  </div>`}function zL(t,e){let n=de(()=>new WeakMap,[e]);return de(()=>{let s=e.toLowerCase(),o=r=>r.type.includes(s)||Kd(r).toLowerCase().includes(s),i=r=>(n.has(r)||n.set(r,o(r)),n.get(r));return s?t.filter(i):t},[t,e])}function WL(t,e,n){let s=t.items.value.length;if(s===0)return t.loading.value?"Loading…":"No matching events.";let o=`${x(s)} ${t.hasEarlier.value?"loaded ":""}${s===1?"event":"events"}`;return n?`${x(e.length)} of ${o} match.`:t.hasEarlier.value?`${o}; scroll up to load earlier ones.`:`${o}.`}function BL({box:t,log:e,items:n,follows:s,isSearched:o}){let[i,r]=M(()=>new Set),l=Cc({count:n.length,getScrollElement:()=>t.current,getItemKey:co(u=>n[u].seq,[n]),estimateSize:()=>NL,initialOffset:()=>Number.MAX_SAFE_INTEGER,overscan:8,anchorTo:"end",followOnAppend:s.value,scrollEndThreshold:s.value?1:-1});qL({box:t,virtualizer:l,log:e,follows:s,size:n.length,isSearched:o});let a=u=>{s.value=!1;let f=new Set(i);f.delete(u)||f.add(u),r(f)};return c`<div ref=${t} class="events-box" role="region" aria-label="Events" tabindex="0">
    <div class="rows" role="list" style=${{height:`${l.getTotalSize()}px`}}>
      ${l.getVirtualItems().map(({key:u,index:f,start:d})=>c`<div
          key=${u}
          ref=${l.measureElement}
          class="event-row"
          role="listitem"
          data-index=${f}
          data-seq=${u}
          style=${{transform:`translateY(${d}px)`}}
        >
          <${Zw} event=${n[f]} isOpen=${i.has(u)} onToggle=${()=>a(u)} />
        </div>`)}
    </div>
  </div>`}function qL({box:t,virtualizer:e,log:n,follows:s,size:o,isSearched:i}){let r=P(0),l=({scrollHeight:u,clientHeight:f,scrollTop:d})=>{let h=u-f-d<=DL&&!n.hasLater.peek();return h&&(s.value=!0),h};pe(()=>{l(t.current)},[e.getTotalSize()]),O(()=>{let{current:u}=t,f=()=>{!l(u)&&u.scrollTop<r.current&&(s.value=!1),r.current=u.scrollTop};return u.addEventListener("scroll",f,{capture:!0,passive:!0}),()=>u.removeEventListener("scroll",f,{capture:!0})},[n]);let a=!n.loading.value&&!n.problem.value;pe(()=>{let{range:u}=e;s.peek()&&o>0&&e.scrollToEnd(),!(!a||!u)&&(n.hasEarlier.peek()&&!i&&u.startIndex<Jw?n.loadEarlier():n.hasLater.peek()&&u.endIndex>o-Jw&&n.loadLater())})}function UL({box:t,log:e,live:n,follows:s,isSearched:o}){let i=!s.value||e.hasLater.value,r=i?e.waiting(n):0,l=()=>t.current.focus({preventScroll:!0}),a=()=>{s.value=!0,e.hasLater.peek()&&e.start(),l()},u=async()=>{await e.loadEarlier(),e.hasEarlier.peek()||l()};return c`<div class="events-ways">
    ${o&&e.hasEarlier.value&&c`<${q} onClick=${u}>Search earlier events<//>`}
    ${i&&c`<button type="button" class="primary" onClick=${a}>
      Jump to newest${r>0?c` <span class="numbers">(${x(r)} new)</span>`:""}
    </button>`}
  </div>`}function jL({state:t}){let[e]=M(()=>t.follower.peek()?.lastId??t.session.peek().last_seq),s=`curl -N -H "Authorization: Bearer $PALIMPSEST_API_KEY" '${`${location.origin}${I(t.id,"events")}?after=${e}`}'`;return c`<details class="curl">
    <summary>Follow with curl</summary>
    <pre tabindex="0" role="region" aria-label="Command">${s}</pre>
    <p class="dim">Without “after”, it starts at the first event. A server without API keys needs no header.</p>
    <${q} onClick=${()=>_n(s).then(()=>ve("Copied."))}>Copy<//>
  </details>`}var Xw=28,HL={directory:"folder",file:"file",symlink:"link",other:"special file"};function ty({files:t,active:e,onDrop:n}){let s=P(null),o=le(),[i,r]=M(null),l=GL(t),a=l.findIndex(({path:v,notice:_})=>!_&&v===e.value);O(()=>{a>=0&&s.current.contains(document.activeElement)&&Ui(s.current,a,Xw)},[a]);let u=v=>{l[v]&&!l[v].notice&&(e.value=l[v].path)},f=v=>{u(v),ny(t,l[v])},d=v=>{v.ctrlKey||v.metaKey||v.altKey||KL(v.key,{rows:l,at:a,go:u,files:t})&&v.preventDefault()},h=v=>{v.preventDefault(),r(ey(v,l))},g=v=>c`<${QL}
    key=${v}
    id=${`${o}-${v}`}
    row=${l[v]}
    index=${v}
    isActive=${v===a}
    isOpen=${t.file.value?.path===l[v].path}
    isTarget=${i!==null&&ZL(l[v],i)}
    onPress=${()=>f(v)}
  />`;return c`<${qi}
    box=${s}
    class="file-tree"
    inner=${{role:"tree",tabindex:0,"aria-label":"Files","aria-activedescendant":a>=0?`${o}-${a}`:void 0,onKeyDown:d,onFocus:()=>a<0&&u(l.findIndex(({notice:v})=>!v))}}
    count=${l.length}
    height=${Xw}
    row=${g}
    onDragOver=${h}
    onDragLeave=${({relatedTarget:v})=>s.current.contains(v)||r(null)}
    onDrop=${v=>{v.preventDefault(),v.stopPropagation(),r(null),n(v.dataTransfer,ey(v,l))}}
  />`}function GL(t){let e=t.folders.value,n=t.expanded.value,s=[],o=(i,r)=>{let l=e.get(i);for(let u of l?.items??[]){let f=u.type==="directory",d=f&&n.has(u.path);s.push({...u,level:r,isFolder:f,isExpanded:d}),d&&o(u.path,r+1)}let a=VL(l);a&&s.push({path:i,level:r,notice:a})};return o("",1),s}function VL(t){return t?.problem?t.problem.message:t?.items?t.truncated?`Only the first ${x(t.items.length)} entries are shown.`:t.items.length===0?"Empty.":null:"Loading…"}function ny(t,{path:e,type:n,isFolder:s,isExpanded:o}){s&&o?t.close(e):s?t.open(e):n==="file"&&t.show(e)}function KL(t,{rows:e,at:n,go:s,files:o}){let i=e[n],r=(l,a)=>{let u=l+a;for(;e[u]?.notice;)u+=a;return u};switch(t){case"ArrowDown":return s(r(n,1)),!0;case"ArrowUp":return s(r(n,-1)),!0;case"Home":return s(r(-1,1)),!0;case"End":return s(r(e.length,-1)),!0;case"Enter":case" ":return i&&ny(o,i),!0;case"ArrowRight":return i?.isFolder&&!i.isExpanded?o.open(i.path):i?.isFolder&&s(r(n,1)),!0;case"ArrowLeft":return i?.isExpanded?o.close(i.path):i&&s(e.findIndex(({path:l,notice:a})=>!a&&l===qn(i.path))),!0;default:return t.length===1&&YL(t,{rows:e,at:n,go:s})}}function YL(t,{rows:e,at:n,go:s}){let o=[...e.keys()].map(l=>(n+1+l)%e.length),i=({path:l,notice:a})=>!a&&Ss(l).toLowerCase().startsWith(t.toLowerCase()),r=o.find(l=>i(e[l]));return r!==void 0&&s(r),r!==void 0}function ey(t,e){let n=t.target.closest?.("[data-index]")?.dataset.index,s=n===void 0?null:e[Number(n)];return s?s.isFolder||s.notice?s.path:qn(s.path):""}var ZL=({path:t},e)=>e===""||t===e||t.startsWith(`${e}/`);function JL({type:t,isFolder:e,isExpanded:n}){return e?n?"▾":"▸":t==="symlink"?"↪":""}function QL({id:t,row:e,index:n,isActive:s,isOpen:o,isTarget:i,onPress:r}){let{path:l,level:a,notice:u,type:f,size:d,modified_at:h,isFolder:g,isExpanded:v}=e,_={id:t,role:"treeitem","aria-level":a,"data-index":n,style:{"--level":a}},k=`${s?"active":""} ${i?"target":""}`;return u?c`<div ...${_} class="tree-row notice ${k}" aria-disabled="true"><span>${u}</span></div>`:c`<div
    ...${_}
    class="tree-row ${f} ${k}"
    aria-expanded=${g?v:void 0}
    aria-selected=${o}
    title=${`${L(l)}
${HL[f]}${g?"":`, ${Se(d)}`}
${ze(h)}`}
    onClick=${r}
  >
    <span class="tree-mark" aria-hidden="true">${JL(e)}</span>
    <span class="tree-name">${L(Ss(l))}</span>
    <span class="tree-size dim">${f==="file"?Se(d):f==="symlink"?"link":""}</span>
    <span class="tree-time dim"><${Ot} time=${h} /></span>
  </div>`}var sy=20,XL=2e5,eP=1e3,tP=20,nP=8,Mc=C(!0);function oy({files:t,sessionId:e,modifiedAt:n}){let{path:s,loading:o,problem:i,text:r,size:l}=t.file.value;return c`<section class="file-view" aria-label="File">
    <header>
      <h2>
        <span class="dim">${qn(s)&&`${L(qn(s))}/`}</span>${L(Ss(s))}
      </h2>
      <p class="dim">${[l!==null&&Se(l),n&&ze(n)].filter(Boolean).join(" · ")}</p>
      <div class="file-buttons">
        <a class="button" href=${ni(e,s)} download=${Ss(s)}>Download</a>
        ${r&&c`<${q} onClick=${()=>_n(r).then(()=>ve("Copied."))}>Copy<//>`}
        ${r&&c`<button type="button" aria-pressed=${Mc.value} onClick=${()=>Mc.value=!Mc.value}>
          Wrap lines
        </button>`}
        <button type="button" onClick=${()=>t.hide()}>Close</button>
      </div>
    </header>
    ${i&&c`<${ge} problem=${i} onRetry=${()=>t.show(s)} />`}
    ${o&&c`<p class="dim" aria-busy="true">Loading…</p>`}
    ${!o&&!i&&c`<${sP} path=${s} text=${r} size=${l} />`}
  </section>`}function sP({path:t,text:e,size:n}){return e===null?c`<p class="file-notice">This file is not UTF-8 text, so it can't be shown. You can download it.</p>`:n===0?c`<p class="file-notice">The file is empty.</p>`:c`${n>Xr&&c`<p class="file-notice">
      Showing the first ${Se(Xr)} of ${Se(n)}. Download the file to see the rest.
    </p>`}
    <${oP} key=${t} path=${t} text=${e} />`}function oP({path:t,text:e}){let[n,s]=M(80),o=de(()=>ue(e),[e]),i=Mc.value?n:eP,r=de(()=>ca(o,i),[o,i]),l=iP(t,o),a=h=>s(Math.max(tP,Math.floor(h/ki())-nP)),u=P(null),f=Number(Be.value.query.line);pe(()=>{let h=f?r.lines.indexOf(f):-1;h>=0&&Ui(u.current,h,sy)},[r,f]);let d=h=>c`<div key=${h} class="line ${f&&r.lines[h]===f?"linked":""}">
    <span class="line-number" aria-hidden="true" onClick=${()=>Pn({line:r.lines[h]})}>
      ${r.lines[h]||""}
    </span>
    <code>${Yt(o,r.starts[h],r.ends[h],l).map($i)}</code>
  </div>`;return c`<${qi}
    class="file-lines"
    box=${u}
    tabindex="0"
    role="region"
    aria-label=${`${L(Ss(t))}, ${x(r.lines.findLast(h=>h>0))} lines`}
    count=${r.lines.length}
    height=${sy}
    row=${d}
    onWidth=${a}
  />`}function iP(t,e){let[n,s]=M({text:null,tokens:[]});return O(()=>{let o=ua(t);if(!o||e.length>XL)return;let i=!0;return Or(e,o).then(r=>i&&r&&s({text:e,tokens:r})),()=>{i=!1}},[t,e]),n.text===e?n.tokens:[]}var rP=400;function iy({state:t}){let e=bc(t),n=we(e.file.peek()?.path??null);aP(t,e),lP(e);let[s,o]=M(null),i=P(null);cP(e.file.value!==null,i);let r=e.folders.value.get(""),{path:l}=e.file.value??{},a=uP(e,n.value),u=async(d,h)=>{let g=await dP(e,d,h);g.length?o({found:d,folder:h,replaced:g}):await e.upload(d,h)},f=(d,h)=>u(pP(d),h);return r?.problem&&!r.items?c`<div class="page"><${ge} problem=${r.problem} onRetry=${()=>e.load("")} /></div>`:c`<div
    class="files-view"
    onDragOver=${d=>d.preventDefault()}
    onDrop=${d=>(d.preventDefault(),f(d.dataTransfer,""))}
  >
    <${fP} state=${t} files=${e} target=${a} onFiles=${d=>u(d,a)} />
    <${mP} files=${e} />
    <div ref=${i} class="files-panes ${e.file.value?"has-file":""}">
      <${ty} files=${e} active=${n} onDrop=${f} />
      ${e.file.value?c`<${oy} files=${e} sessionId=${t.id} modifiedAt=${e.entry(l)?.modified_at} />`:c`<p class="file-none dim">Select a file to view it, or drop files on a folder to upload them.</p>`}
    </div>
    ${s&&c`<${hP} files=${e} ...${s} onClose=${()=>o(null)} />`}
  </div>`}function lP(t){let{path:e}=Be.value.query;O(()=>{e&&e!==t.file.peek()?.path&&t.show(e)},[e]);let n=t.file.value?.path;O(()=>{let{path:s=""}=t.file.peek()??{};s!==(Be.peek().query.path??"")&&Pn({path:s,line:""})},[n])}function aP(t,e){let{steps:n,status:s}=t.session.value,o=P(!0);O(()=>{if(o.current){o.current=!1,e.refresh();return}let i=setTimeout(()=>e.refresh(),rP);return()=>clearTimeout(i)},[n,s])}function cP(t,e){let n=P(t);O(()=>{let s=n.current&&!t;n.current=t,!(!s||document.activeElement!==document.body)&&e.current?.querySelector('[role="tree"]')?.focus({preventScroll:!0})},[t])}function uP(t,e){let n=e&&t.entry(e);return n?n.type==="directory"?e:qn(e):""}function fP({state:t,files:e,target:n,onFiles:s}){let o=P(null),i=le();return c`<div class="toolbar">
    <${q} onClick=${()=>e.refresh()}>Refresh<//>
    <label class="hidden" for=${i}>Files to upload</label>
    <input ref=${o} id=${i} type="file" multiple hidden onChange=${({currentTarget:l})=>{let a=[...l.files];l.value="",s(a)}} />
    <button type="button" onClick=${()=>o.current.click()}>Upload files</button>
    <span class="dim">into ${n?c`<code>${L(n)}/</code>`:"the workspace"}</span>
    <span class="spacer"></span>
    <a class="button" href=${I(t.id,"archive")} download=${`${t.id}.tar`}>Download all (.tar)</a>
  </div>`}async function dP(t,e,n){await t.load(n);let s=[];for(let{name:o}of e)await t.has(Ld(n,o))&&s.push(o);return s}function pP(t){let e=[...t.items].filter(({kind:s})=>s==="file"),n=s=>s.webkitGetAsEntry?.()?.isDirectory;return e.some(n)&&ve("Folders can't be uploaded. Drop the files in them instead."),e.filter(s=>!n(s)).map(s=>s.getAsFile())}function hP({files:t,found:e,folder:n,replaced:s,onClose:o}){let i=s.slice(0,5).map(L).join(", "),r=s.length>5?` and ${s.length-5} more`:"",l=async()=>{t.upload(e,n)};return c`<${nn}
    title=${s.length===1?"Replace file?":"Replace files?"}
    text=${`Already in the workspace: ${i}${r}.`}
    verb="Replace"
    onConfirm=${l}
    onClose=${o}
  />`}function mP({files:t}){let e=t.uploads.value;if(e.length===0)return null;let n=e.some(({status:s})=>s!=="sending");return c`<section class="uploads" aria-label="Uploads">
    <ul>
      ${e.map(s=>c`<li key=${s.id} class=${s.status}>
          <span class="upload-name">${L(s.path)}</span>
          ${s.status==="sending"&&c`<progress value=${s.share} max="1" aria-label=${`Upload of ${L(s.path)}`}></progress>
            <span class="dim numbers">${Fe(s.share)}</span>`}
          ${s.status==="done"&&c`<span class="badge good">uploaded</span>`}
          ${s.status==="failed"&&c`<span class="badge bad">not uploaded</span> <span role="alert">${s.detail}</span>`}
        </li>`)}
    </ul>
    ${n&&c`<button type="button" class="plain" onClick=${()=>t.clearUploads()}>Clear list</button>`}
  </section>`}var gP=t=>_e(t*1e3);function ry({session:t,run:e,attempts:n,knownCost:s}){let{limits:o,usage:i}=t;return c`<div class="limits">
    <${$P} used=${e&&a$(e,n)} most=${o.max_steps} />
    <${vP} run=${e} most=${o.max_seconds} />
    <${Rc} name="Total tokens" used=${kn(i)} most=${o.max_tokens} format=${x} />
    <${Rc} name="Total cost" used=${i.cost_usd??s} most=${o.max_cost_usd} format=${nt} />
  </div>`}function $P({used:t,most:e}){let n=e!==null&&t===e+1;return c`<${Rc} name="Steps of this run" used=${n?e:t} most=${e} format=${x} note=${n?", plus a closing step":""} />`}function vP({run:t,most:e}){let n=t?.endedAt??vn.value,s=t&&Math.max(0,(n-t.startedAt)/1e3);return c`<${Rc} name="Time of this run" used=${s} most=${e} format=${gP} />`}function Rc({name:t,used:e,most:n,format:s,note:o=""}){let i=`${s(e??0)} ${n===null?"· no limit":`of ${s(n)}`}${o}`;return c`<div class="limit">
    <span class="limit-name">${t}</span>
    <span class="numbers">${i}</span>
    ${n!==null&&c`<${bP} name=${t} share=${(e??0)/n} text=${i} />`}
  </div>`}function bP({name:t,share:e,text:n}){let s=Math.min(100,Math.round(e*100)),o=e>=1?"full":e>=.8?"near":"";return c`<span
    class="limit-bar ${o}"
    role="meter"
    aria-label=${t}
    aria-valuemin="0"
    aria-valuemax="100"
    aria-valuenow=${s}
    aria-valuetext=${n}
  >
    <span style=${{width:`${s}%`}}></span>
  </span>`}var al=["model","tools","waiting","compaction"];function ly(t,e){let n=new Map(e.map(({round:i,duration_ms:r})=>[i,r])),s=[],o=null;for(let i of Map.groupBy(t,({step:r})=>r).values()){let r=i.at(-1),l=Date.parse(i[0].started_at);if(r.duration_ms!==null&&r.finish_reason!==null){let a=r.compaction_round===o?.round?0:n.get(r.compaction_round)??0,u=o?Math.max(0,Math.min(a,l-o.end)):0;s.push({step:r.step,...wP(r,l),compaction:u,total:r.duration_ms+u})}o={round:r.compaction_round,end:l+(r.duration_ms??0)}}return s}function wP({started_at:t,duration_ms:e,model_ms:n,waiting_ms:s=0},o){if(n==null)return{model:null,tools:null,waiting:s};let i=Math.min(e,Date.parse(t)-o+n);return{model:i,tools:Math.max(0,e-i-s),waiting:s}}function ay(t){let e=n=>t.reduce((s,o)=>s+(o[n]??0),0);return Object.fromEntries([...al,"total"].map(n=>[n,e(n)]))}var cy={model:"Model",tools:"Tools",waiting:"Waiting for you",compaction:"Compaction"};function uy({attempts:t,rounds:e,isLoading:n}){let s=ly(t,e),[o,i]=ba(s);if(s.length===0)return c`<p class="dim">${n?"Loading…":"No steps have ended yet."}</p>`;let r=ay(s),l=Math.max(...s.map(({total:a})=>a));return c`<dl class="figures">
      <${ts} name="All steps" value=${_e(r.total)} />
      ${al.map(a=>c`<${ts} key=${a} value=${r[a]?_e(r[a]):"none"}
          name=${c`<span class="key ${a}" aria-hidden="true"></span> ${cy[a]}`}>
          ${r[a]>0&&Fe(r[a]/r.total)}
        <//>`)}
    </dl>
    <${ns} name="Time by step">
      <thead>
        <tr>
          <th scope="col">Step</th>
          <th scope="col" class="number">Total</th>
          ${al.map(a=>c`<th key=${a} scope="col" class="number">${cy[a]}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${o.map(a=>c`<${yP} key=${a.step} time=${a} most=${l} />`)}
      </tbody>
    <//>
    ${i}`}function yP({time:t,most:e}){return c`<tr>
    <th scope="row">${x(t.step)}<${kP} time=${t} most=${e} /></th>
    <td class="number">${_e(t.total)}</td>
    ${al.map(n=>c`<td key=${n} class="number">${_P(t[n],n)}</td>`)}
  </tr>`}function _P(t,e){return t===null?"–":t===0&&(e==="waiting"||e==="compaction")?"":_e(t)}function kP({time:t,most:e}){let n=["compaction","model","tools","waiting"],s=o=>`${e===0?0:(t[o]??0)/e*100}%`;return c`<span class="usage-bar" aria-hidden="true">
    ${n.map(o=>c`<span key=${o} class=${o} style=${{width:s(o)}}></span>`)}
  </span>`}function fy({state:t}){let e=wi(t);O(()=>e.watch(),[e]);let n=t.session.value,s=e.attempts.value,o=e.rounds.value.filter(({usage:l})=>l&&kn(l)>0),i=[...s,...o].reduce((l,{usage:a})=>l+(a?.cost_usd??0),0),r=e.problem.value;return c`<div class="session-usage">
    ${r&&c`<${ge} problem=${r} onRetry=${()=>e.retry()} />`}
    <section aria-labelledby="used">
      <h2 id="used">Total usage</h2>
      <${$a} usage=${n.usage} atLeast=${i}>
        <${xP} rounds=${o} total=${n.usage} />
      <//>
      ${n.usage.cost_usd===null&&c`<p class="hint">
        The price of a model is unknown, so the cost is too. You can set prices in
        ${" "}<code>PALIMPSEST_MODELS</code>.
      </p>`}
    </section>
    <section aria-labelledby="limits">
      <h2 id="limits">Limits</h2>
      <${ry} session=${n} run=${yi(t).run.value} attempts=${s} knownCost=${i} />
    </section>
    <section aria-labelledby="times">
      <h2 id="times">Time</h2>
      <${uy} attempts=${s} rounds=${e.rounds.value} isLoading=${e.progress.value!==null} />
    </section>
    <section aria-labelledby="by-step">
      <h2 id="by-step">By step</h2>
      <${SP} attempts=${s} isLoading=${e.progress.value!==null} />
    </section>
  </div>`}function xP({rounds:t,total:e}){let n=ga(t.map(r=>r.usage)),s=e.cost_usd!==null&&e.cost_usd>0,o=s?n.cost_usd/e.cost_usd:kn(n)/(kn(e)||1);if(t.length===0)return c`<${ts} name="Compaction" value="none" />`;let i=n.cost_usd===null?"cost unknown":nt(n.cost_usd);return c`<${ts} name="Compaction" value=${Fe(o)}>
    of the ${s?"cost":"tokens"}: ${x(kn(n))} tokens, ${i}
  <//>`}function SP({attempts:t,isLoading:e}){let[n,s]=ba(t);if(t.length===0)return c`<p class="dim">${e?"Loading…":"No steps yet."}</p>`;let o=t.filter(({usage:r})=>r),i=Math.max(...o.map(({usage:r})=>kn(r)),0);return c`<p class="dim">Tokens: <${ya} /></p>
    <${ns} name="Usage by step">
      <thead>
        <tr>
          <th scope="col">Step</th>
          <${va} />
        </tr>
      </thead>
      <tbody>
        ${n.map(r=>c`<${EP} key=${r.message_id} row=${r} most=${i} />`)}
      </tbody>
    <//>
    ${s}`}function EP({row:{step:t,attempt:e,usage:n,finish_reason:s},most:o}){return c`<tr>
    <th scope="row">
      ${x(t)}${e>1&&c`<span class="dim"> attempt ${e}</span>`}
      ${n&&c`<${wa} usage=${n} most=${o} />`}
    </th>
    ${n&&s?c`<${Rr} usage=${n} />`:c`<td class="dim" colspan="6">running</td>`}
  </tr>`}var CP={conversation:Kw,context:Eb,files:iy,changes:G$,usage:fy,events:Qw},dy={conversation:"Conversation",context:"Context",files:"Files",changes:"Changes",usage:"Usage",events:"Events"};function py({id:t}){let e=de(()=>new La(t),[t]);O(()=>(e.open(),()=>e.close()),[e]);let n=e.session.value;if(O(()=>{gs.value=n?Lt(n):""},[n&&Lt(n)]),f$(n),e.deleted.value)return c`<${OP} />`;if(e.problem.value)return c`<main class="page"><${TP} problem=${e.problem.value} state=${e} /></main>`;if(!n)return c`<main class="page"><p class="dim" aria-busy="true">Loading…</p></main>`;let s=Be.value.view??fs[0];return c`<div class="session">
    <${AP} state=${e} session=${n} />
    <${RP} id=${t} view=${s} state=${e} />
    <main class="view ${s}" aria-label=${dy[s]}><${CP[s]} state=${e} /></main>
    <${Rg} />
  </div>`}function TP({problem:t,state:e}){return c`<${ge} problem=${t} onRetry=${()=>e.reload()} />
    ${t.mayPass&&c`<p class="dim">Retrying automatically</p>`}`}function OP(){return c`<main class="page">
    <p>This session does not exist. It may have been deleted.</p>
    <p><a href="#/">All sessions</a></p>
  </main>`}function AP({state:t,session:e}){return c`<div class="session-head">
    <h1 title=${MP(e)}>${Lt(e)}</h1>
    <${si} session=${e} />
    <${u$} state=${t} session=${e} />
    <${Cg} context=${e.context} />
    <span class="dim model">${e.model}</span>
    <${Fg} state=${t} session=${e} />
    <${Kl} follower=${t.follower.value} />
    <${Vg} state=${t} session=${e} />
  </div>`}function MP({title:t,task:e,...n}){let s=Lt({title:t,task:e,...n}),o=e&&!e.startsWith(s.replace(/…$/,""));return t&&o?`${s}

${ue(e)}`:ue(e||s)}function RP({id:t,view:e,state:n}){let s=n.approvals.value.length+n.clientCalls.value.length,o=c` <span class="badge waiting">${s}<span class="hidden"> waiting for you</span></span>`;return c`<nav class="tabs" aria-label="Views of this session">
    ${fs.map(i=>c`<a key=${i} href=${be(t,i)} aria-current=${i===e?"page":void 0}>
        ${dy[i]}${i==="conversation"&&s?o:""}
      </a>`)}
    <button type="button" class="plain tabs-search" onClick=${$r}>Search</button>
  </nav>`}function hy(){let[t,e]=M(!1),n=async s=>{let o=s.currentTarget;e(!await pm(o.checked)),o.checked=$s.value};return c`<section aria-labelledby="browser-settings">
    <h2 id="browser-settings">This browser</h2>
    <div class="switches">
      <${Yd} label="Notify me when a session needs me or ends" value=${$s.value} onChange=${n} />
      <${Yd}
        label="Play a sound with notifications"
        value=${Ul.value}
        onChange=${s=>Ul.value=s.currentTarget.checked}
        disabled=${!$s.value}
      />
      <${Yd}
        label="Single-key shortcuts (press ? to list them)"
        value=${zl.value}
        onChange=${s=>zl.value=s.currentTarget.checked}
      />
    </div>
    ${t&&c`<p class="field-error" role="alert">
      The browser blocks notifications of this page. Allow them in its site settings, then try again.
    </p>`}
  </section>`}function Yd({label:t,value:e,...n}){return c`<label><input type="checkbox" checked=${e} ...${n} /> ${t}</label>`}var Jd=50,Gi=(...t)=>["/v1/webhooks",...t.map(encodeURIComponent)].join("/"),Un=C(null),cl=C(null);async function my(){let t=await W(`/v1/webhooks?limit=${Jd}`);Un.value=t.items,cl.value=t.next_cursor}async function gy(){let t=await W(`/v1/webhooks?${new URLSearchParams({limit:Jd,cursor:cl.value})}`);Un.value=Zd(Un.value,t.items),cl.value=t.next_cursor}var Zd=(t,e)=>[...t,...e.filter(({id:n})=>t.every(s=>s.id!==n))];async function $y(t){let{secret:e,...n}=await Me("/v1/webhooks",t);return Un.value=[n,...Un.value??[]],e}async function Pc(t,e){by(await $n(Gi(t),e))}async function vy(t){by(await W(Gi(t)))}function by(t){Un.value=Un.value.map(e=>e.id===t.id?t:e)}async function wy(t){await Vt(Gi(t)),Un.value=Un.value.filter(e=>e.id!==t)}var Lc=class{items=C(null);next=C(null);#e;#t="";constructor(e){this.#e=e}async load(){let e=this.#t,n=await W(this.#n({}));e===this.#t&&(this.items.value===null&&(this.next.value=n.next_cursor),this.items.value=Zd(n.items,this.items.value??[]))}async more(){let e=await W(this.#n({cursor:this.next.value}));this.items.value=Zd(this.items.value,e.items),this.next.value=e.next_cursor}async filter(e){this.#t=e,this.items.value=null,await this.load()}async test(){await Me(Gi(this.#e,"test")),this.items.value!==null&&await this.load()}async retry(e){let n=await Me(Gi(this.#e,"deliveries",e,"retry"));this.items.value=this.items.value.map(s=>s.id===e?n:s)}#n(e){let n=new URLSearchParams({limit:Jd,...this.#t&&{status:this.#t},...e});return`${Gi(this.#e,"deliveries")}?${n}`}},yy={attention:["session.idle","approval.requested"],all:null};function _y(t){if(!t)return{url:"",kind:"attention",events:"",session:""};let{url:e,events:n,session_id:s}=t,[o="some"]=Object.entries(yy).find(([,i])=>JSON.stringify(i)===JSON.stringify(n))??[];return{url:e,kind:o,events:n?.join(`
`)??"",session:s??""}}function ky({url:t,kind:e,events:n,session:s},o){let i={};t.trim()||(i.url="Enter a URL.");let r=n.split(/[\s,]+/).filter(Boolean);e==="some"&&r.length===0&&(i.events="Enter at least one event.");let l={url:t.trim(),events:e==="some"?r:yy[e]};return o&&s.trim()&&(l.session_id=s.trim()),{body:l,errors:i}}var LP={webhook_address_refused:"url",session_not_found:"session"},PP={url:"url",events:"events",session_id:"session"};function xy(t){let e=t.body.errors??[{field:"",message:t.message}],n={};for(let{field:s,message:o}of e){let i=PP[s.split(".")[0]]??LP[t.code]??"rest";n[i]??=o}return n}var IP=50;function Ic({webhook:t,onClose:e}){let[n,s]=M(()=>_y(t)),[o,i]=M({}),[r,l]=M(null),a=P(null);if(O(()=>{a.current?.querySelector('[aria-invalid="true"]')?.focus()},[o]),r)return c`<${zP} url=${n.url} secret=${r} onClose=${e} />`;async function u(){let{body:d,errors:h}=ky(n,!t);if(i(h),!(Object.keys(h).length>0)){try{if(t)await Pc(t.id,d);else return l(await $y(d))}catch(g){return i(xy(g))}return e()}}let f=d=>s({...n,...d});return c`<${et} title=${t?"Edit webhook":"New webhook"} onClose=${e}>
    <div class="webhook-form" ref=${a}>
      <${Pe.Provider} value=${{values:n,change:f,errors:o}}>
        <${Pt}
          name="url"
          label="URL"
          inputmode="url"
          autocomplete="off"
          autocapitalize="none"
          spellcheck=${!1}
          placeholder="https://hooks.example.com/palimpsest"
        />
        <${DP} />
        ${t?c`<${FP} webhook=${t} />`:c`<${NP} />`}
      <//>
    </div>
    ${o.rest&&c`<div class="failure" role="alert"><p>${o.rest}</p></div>`}
    <footer>
      <button type="button" onClick=${e}>Cancel</button>
      <${q} kind="primary" onClick=${u}>${t?"Save":"Create"}<//>
    </footer>
  <//>`}function DP(){let{values:t}=ke(Pe);return c`<${wn} name="kind" label="Events">
      <option value="attention">A run has ended, or a call needs approval</option>
      <option value="all">All events</option>
      <option value="some">Some events…</option>
    <//>
    ${t.kind==="some"&&c`<${vs}
      name="events"
      label="Event names"
      help="One per line: a name such as session.idle, or all names of a topic, such as approval.*"
      rows="4"
      class="mono"
      spellcheck=${!1}
      autocapitalize="none"
      placeholder=${`session.idle
approval.*`}
    />`}`}function NP(){let t=le(),[e,n]=M([]);return O(()=>{W(`/v1/sessions?limit=${IP}`).then(({items:s})=>n(s),()=>{})},[]),c`<${Pt}
      name="session"
      label="Session"
      placeholder="all sessions"
      help="The id of a session, to send only its events"
      list=${t}
      autocomplete="off"
      autocapitalize="none"
      spellcheck=${!1}
    />
    <datalist id=${t}>
      ${e.map(s=>c`<option key=${s.id} value=${s.id}>${Lt(s)}</option>`)}
    </datalist>`}function FP({webhook:{session_id:t}}){return c`<p class="dim">${t?c`Only events of session <code>${t}</code>`:"Events of all sessions"}</p>`}function zP({url:t,secret:e,onClose:n}){let s=le(),o=P(null);return O(()=>o.current.select(),[]),c`<${et} title="Webhook created" staysOpen=${!0} onClose=${n}>
    <p>
      Receivers at <code>${L(t)}</code> verify what they get with this secret. Copy it now; it is not shown
      again.
    </p>
    <div class="field">
      <label for=${s}>Signing secret</label>
      <div class="copy-row">
        <input ref=${o} id=${s} class="mono" readonly autocomplete="off" value=${e} />
        <${q} onClick=${()=>_n(e).then(()=>ve("Copied."))}>Copy<//>
      </div>
    </div>
    <footer><button type="button" class="primary" onClick=${n}>Done</button></footer>
  <//>`}var WP=2e3,BP={"":"All",pending:"Pending",delivered:"Delivered",failed:"Failed"},qP={pending:"running",delivered:"good",failed:"bad"};function Sy({webhook:t,deliveries:e}){let[n,s]=M(null),[o,i]=M(""),r=d=>d.then(()=>(s(null),vy(t.id))).catch(s),l=()=>r(e.load()),a=e.items.value;O(()=>{l()},[e]);let u=a?.some(d=>d.status==="pending")??!1;return O(()=>{if(!u)return;let d=setInterval(()=>document.visibilityState==="visible"&&l(),WP);return()=>clearInterval(d)},[u,e]),c`<section class="deliveries" aria-label="Deliveries">
    <div class="toolbar">
      <select aria-label="Status of deliveries" value=${o} onChange=${({currentTarget:{value:d}})=>{i(d),r(e.filter(d))}}>
        ${Object.entries(BP).map(([d,h])=>c`<option key=${d} value=${d}>${h}</option>`)}
      </select>
      <${q} onClick=${l}>Refresh<//>
    </div>
    ${n&&c`<${ge} problem=${n} onRetry=${l} />`}
    ${!a&&!n&&c`<p class="dim" aria-busy="true">Loading…</p>`}
    ${a?.length===0&&c`<p class="dim">${o?"No such deliveries":"Nothing has been sent yet"}</p>`}
    ${a?.length>0&&c`<${ns} name="Deliveries">
        <thead>
          <tr>
            <th scope="col">Event</th>
            <th scope="col">Status</th>
            <th scope="col">Response</th>
            <th scope="col" class="number">Attempts</th>
            <th scope="col">Created</th>
            <th scope="col"><span class="hidden">Actions</span></th>
          </tr>
        </thead>
        <tbody>
          ${a.map(d=>c`<${UP} key=${d.id} item=${d} deliveries=${e} />`)}
        </tbody>
      <//>`}
    ${e.next.value!==null&&c`<${q} onClick=${()=>e.more().catch($t)}>Load more<//>`}
  </section>`}function UP({item:t,deliveries:e}){let n=t.status==="delivered"?"Send again":"Send now",{id:s,type:o,session_id:i,seq:r,status:l,attempts:a,created_at:u}=t;return c`<tr>
    <th scope="row">
      <code>${L(o)}</code>
      ${i&&c` <a href=${be(i,"events")} title=${i}>event ${x(r)}</a>`}
    </th>
    <td><${xe} kind=${qP[l]}>${l}<//> <${jP} item=${t} /></td>
    <td><${HP} item=${t} /></td>
    <td class="number">${x(a)}</td>
    <td class="dim"><${Ot} time=${u} /></td>
    <td>
      <${q} aria-label=${`${n}: ${L(o)}`} onClick=${()=>e.retry(s)}>${n}<//>
    </td>
  </tr>`}function jP({item:{status:t,attempts:e,next_attempt_at:n}}){return t!=="pending"||e===0||!n?null:c`<span class="dim">next <${Ot} time=${n} /></span>`}function HP({item:{response_status:t,error:e,duration_ms:n,attempts:s}}){if(s===0)return c`<span class="dim">–</span>`;let o=e?L(e):`${t}`;return c`<span class=${e?"delivery-error":""}>${o}</span>
    ${n!==null&&c` <span class="dim numbers">${_e(n)}</span>`}`}function Ey({webhook:t}){let{id:e,url:n,status:s}=t,o=de(()=>new Lc(e),[e]),[i,r]=M(!1),[l,a]=M(null),u=()=>a(null),f=async()=>{await o.test(),r(!0)},d=s==="active",h=()=>Pc(e,{status:d?"disabled":"active"}).catch($t),g=[{label:"Edit",onClick:()=>a("edit")},{label:d?"Disable":"Enable",onClick:h},{label:"Delete",kind:"danger",onClick:()=>a("delete")}];return c`<li class="webhook">
    <div class="webhook-head">
      <div class="webhook-what">
        <h3>${L(n)}</h3>
        <p><${GP} webhook=${t} /> <${VP} webhook=${t} /></p>
      </div>
      <div class="webhook-ways">
        ${!d&&c`<${q} onClick=${h}>Enable<//>`}
        <${q} aria-label=${`Test ${n}`} onClick=${f}>Test<//>
        <button
          type="button"
          aria-expanded=${i}
          aria-label=${`Deliveries to ${n}`}
          onClick=${()=>r(!i)}
        >
          Deliveries
        </button>
        <${bi} label="⋯" name=${`Actions for ${n}`} items=${g} kind="plain" />
      </div>
    </div>
    <${KP} webhook=${t} />
    ${i&&c`<${Sy} webhook=${t} deliveries=${o} />`}
    ${l==="edit"&&c`<${Ic} webhook=${t} onClose=${u} />`}
    ${l==="delete"&&c`<${nn}
      title="Delete webhook?"
      text="Nothing more is sent to ${L(n)}, and its list of deliveries is deleted. This cannot be undone."
      verb="Delete"
      onConfirm=${()=>wy(e)}
      onClose=${u}
    />`}
  </li>`}function GP({webhook:{status:t,failing_since:e}}){return t==="disabled"?c`<${xe} kind="bad">disabled<//>`:e?c`<${xe} kind="warn">failing<//>`:c`<${xe} kind="good">active<//>`}function VP({webhook:{events:t,session_id:e}}){let n=t===null?"all events":c`<code>${t.map(L).join(", ")}</code>`,s=e?c`<a href=${be(e)}>one session</a>`:"all sessions";return c`<span class="dim">${n} of ${s}</span>`}function KP({webhook:{status:t,disabled_reason:e,disabled_at:n,failing_since:s}}){if(t==="disabled"){let o=e?L(e):"";return c`<p class="webhook-trouble">Disabled${n&&c` <${Ot} time=${n} />`}${o&&`: ${o}`}</p>`}return s&&c`<p class="webhook-trouble">Deliveries have been failing since <${Ot} time=${s} /></p>`}function Cy(){let[t,e]=M(null),[n,s]=M(!1),o=()=>my().then(()=>e(null),e);O(()=>{gs.value="Settings",o()},[]);let i=Un.value;return c`<main class="page settings">
    <div class="page-head"><h1>Settings</h1></div>
    <${hy} />
    <section aria-labelledby="webhooks">
      <div class="page-head">
        <h2 id="webhooks">Webhooks</h2>
        <button type="button" class="primary" onClick=${()=>s(!0)}>New webhook</button>
      </div>
      <p class="dim">
        Sends events of sessions to a URL, in order and until they arrive, signed as${" "}
        <a href="https://www.standardwebhooks.com" target="_blank" rel="noreferrer">Standard Webhooks</a>.
      </p>
      ${t&&c`<${ge} problem=${t} onRetry=${o} />`}
      ${!i&&!t&&c`<p class="dim" aria-busy="true">Loading…</p>`}
      ${i?.length===0&&c`<p>No webhooks yet.</p>`}
      ${i?.length>0&&c`<ul class="webhooks" aria-label="Webhooks">
        ${i.map(r=>c`<${Ey} key=${r.id} webhook=${r} />`)}
      </ul>`}
      ${i&&cl.value!==null&&c`<${q} onClick=${gy}>Load more<//>`}
    </section>
    ${n&&c`<${Ic} onClose=${()=>s(!1)} />`}
  </main>`}var Dc=30,YP=5,ZP=864e5,JP=new Intl.DateTimeFormat(void 0,{month:"short",day:"numeric",timeZone:"UTC"}),Ty={cost:{label:"Cost",of:({usage:t})=>t.cost_usd??0,text:nt},tokens:{label:"Tokens",of:({usage:t})=>kn(t),text:lt}};function Oy({items:t}){let e=t.some(({usage:f})=>f.cost_usd>0),[n,s]=M(null),o=n??(e?"cost":"tokens"),i=Ty[o],r=Ay(Dc-1),l=t.filter(({day:f})=>f>=r),a=QP(l,({model:f})=>f,i.of).sort(([,f],[,d])=>d-f),u=new Map(a.map(([f],d)=>[f,Math.min(d,YP-1)]));return c`<section class="usage-charts" aria-labelledby="usage-charts">
    <div class="page-head">
      <h2 id="usage-charts">Last ${Dc} days</h2>
      <fieldset class="segments">
        <legend class="hidden">Measure</legend>
        ${Object.entries(Ty).map(([f,{label:d}])=>c`<label key=${f}>
            <input type="radio" name="measure" checked=${f===o} onChange=${()=>s(f)} />
            <span>${d}</span>
          </label>`)}
      </fieldset>
    </div>
    <${XP} ...${{items:l,measure:i,colors:u}} />
    <${eI} ...${{models:a,measure:i,colors:u}} />
  </section>`}function QP(t,e,n){return[...Map.groupBy(t,e)].map(([s,o])=>[s,o.reduce((i,r)=>i+n(r),0)])}function XP({items:t,measure:e,colors:n}){let s=Map.groupBy(t,({day:f})=>f),o=Array.from({length:Dc},(f,d)=>Ay(Dc-1-d)),i=o.map(f=>(s.get(f)??[]).reduce((d,h)=>d+e.of(h),0)),r=Math.max(...i),l=f=>`${r===0?0:f/r*100}%`,a=i.reduce((f,d)=>f+d,0),u=`${e.label} by day: ${e.text(a)} in total, at most ${e.text(r)} per day`;return c`<figure class="usage-days">
    <figcaption class="dim"><span class="numbers">${e.text(r)}</span> max per day</figcaption>
    <div class="usage-columns" role="img" aria-label=${u}>
      ${o.map((f,d)=>c`<span
          key=${f}
          class="usage-column"
          title=${`${Qd(f)}: ${e.text(i[d])}`}
        >
          ${(s.get(f)??[]).map(h=>c`<span
              key=${h.model}
              data-color=${n.get(h.model)}
              style=${{height:l(e.of(h))}}
            ></span>`)}
        </span>`)}
    </div>
    <p class="usage-axis dim" aria-hidden="true"><span>${Qd(o[0])}</span><span>${Qd(o.at(-1))}</span></p>
  </figure>`}var Ay=t=>new Date(Date.now()-t*ZP).toISOString().slice(0,10),Qd=t=>JP.format(new Date(`${t}T00:00:00Z`));function eI({models:t,measure:e,colors:n}){let s=Math.max(...t.map(([,o])=>o));return c`<ul class="usage-models" aria-label="By model">
    ${t.map(([o,i])=>c`<li key=${o}>
        <span class="usage-model">${o}</span>
        <span class="usage-row" aria-hidden="true">
          <span data-color=${n.get(o)} style=${{width:`${s===0?0:i/s*100}%`}}></span>
        </span>
        <span class="numbers">${e.text(i)}</span>
      </li>`)}
  </ul>`}var tI=15e3,My=30,nI=new Intl.DateTimeFormat(void 0,{dateStyle:"medium",timeZone:"UTC"});function Ry(){let{report:t,problem:e,load:n}=sI();return O(()=>{gs.value="Usage"},[]),c`<main class="page usage">
    <div class="page-head"><h1>Usage</h1></div>
    ${e&&c`<${ge} problem=${e} onRetry=${n} />`}
    ${!t&&!e&&c`<p class="dim" aria-busy="true">Loading…</p>`}
    ${t&&(t.items.length?c`<${oI} report=${t} />`:c`<p>No model calls yet.</p>`)}
    <${Ng} />
  </main>`}function sI(){let[t,e]=M(null),[n,s]=M(null),o=async()=>{try{let[i]=await Promise.all([W("/v1/usage"),ma()]);e(i),s(null)}catch(i){s(i)}};return O(()=>{let i=()=>document.visibilityState==="visible"&&o(),r=setInterval(i,tI);return document.addEventListener("visibilitychange",i),o(),()=>{clearInterval(r),document.removeEventListener("visibilitychange",i)}},[]),{report:t,problem:n,load:o}}function oI({report:{total:t,items:e}}){let[n,s]=M(My),i=[...Map.groupBy(e,({day:l})=>l)].map(([l,a])=>({day:l,models:a,usage:iI(a)})),r=Math.max(...i.map(({usage:l})=>kn(l)));return c`<section aria-label="Total usage"><${$a} usage=${t} atLeast=${Ly(e)} /></section>
    <${Oy} items=${e} />
    <${rI} items=${e} />
    <section aria-labelledby="by-day">
      <h2 id="by-day">By day and model</h2>
      <p class="dim">Days are in UTC. <${ya} /></p>
      <${ns} name="Usage by day and model">
        <thead>
          <tr>
            <th scope="col">Day and model</th>
            <th scope="col" class="number">Steps</th>
            <${va} />
          </tr>
        </thead>
        ${i.slice(0,n).map(l=>c`<${lI} key=${l.day} ...${l} most=${r} />`)}
      <//>
      ${i.length>n&&c`<button type="button" onClick=${()=>s(n+My)}>
        Show earlier days (${x(i.length-n)})
      </button>`}
    </section>`}var Ly=t=>t.reduce((e,{usage:n})=>e+(n.cost_usd??0),0),iI=t=>ga(t.map(({usage:e})=>e));function rI({items:t}){let e=[...new Set(t.filter(({usage:n})=>n.cost_usd===null).map(({model:n})=>n))];return e.length===0?null:c`<p class="hint">
    Some prices of ${e.join(", ")} are unknown: tokens are counted, but the cost is not. You can set prices in
    ${" "}<code>PALIMPSEST_MODELS</code>.
  </p>`}function lI({day:t,models:e,usage:n,most:s}){return c`<tbody>
    <tr class="day">
      <th scope="rowgroup">
        ${nI.format(new Date(`${t}T00:00:00Z`))}
        <${wa} usage=${n} most=${s} />
      </th>
      <td class="number">${x(e.reduce((o,{steps:i})=>o+i,0))}</td>
      <${Rr} usage=${n} atLeast=${Ly(e)} />
    </tr>
    ${e.map(o=>c`<tr key=${o.model}>
        <th scope="row" class="model">${o.model}</th>
        <td class="number">${x(o.steps)}</td>
        <${Rr} usage=${o.usage} />
      </tr>`)}
  </tbody>`}function aI(){let t=tn.value&&!$h();if(cI(!t),t)return c`<${mm} />`;let{page:e,id:n}=Be.value,s=o=>e===o?"page":void 0;return c`<header class="top">
      <a class="brand" href="#/"><${Xn} name="mark" /><span>Palimpsest</span></a>
      <nav aria-label="Pages">
        <a href="#/" aria-current=${s("sessions")}>Sessions</a>
        <a href="#/usage" aria-current=${s("usage")}>Usage</a>
        <a href="#/settings" aria-current=${s("settings")}>Settings</a>
      </nav>
      <${tm} />
      <${vm} />
    </header>
    ${e==="session"&&c`<${py} key=${n} id=${n} />`}
    ${e==="sessions"&&c`<${Eg} />`}
    ${e==="usage"&&c`<${Ry} />`}
    ${e==="settings"&&c`<${Cy} />`}
    <${_h} />
    <${em} />
    ${tn.value&&c`<${gm} />`}`}function cI(t){let e=t&&(Be.value.page==="sessions"||$s.value);O(()=>{if(e)return re.open(),()=>re.close()},[e])}function Py(t){t.defaultPrevented||!t.dataTransfer?.types.includes("Files")||(t.preventDefault(),t.dataTransfer.dropEffect="none")}addEventListener("dragover",Py);addEventListener("drop",Py);var Iy=document.getElementById("page");Iy.replaceChildren();$u(c`<${aI} />`,Iy);
//# sourceMappingURL=main.js.map
