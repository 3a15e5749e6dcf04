function Ln(t){let e=null;return n=>(e??=t()).format(n)}var tm=Ln(()=>new Intl.DateTimeFormat(void 0,{dateStyle:"medium",timeStyle:"medium"})),$=t=>t==null?"–":String(Math.round(t)).replace(nm,","),nm=/\B(?=(?:\d{3})+$)/g;function oe(t){if(t==null)return"–";let e=Pa(t),n=0;for(;Math.abs(e)>=1e3&&n<Na.length-1;)e=Pa(e/1e3),n+=1;return`${e}${Na[n]}`}var Na=["","K","M","B","T"],Pa=t=>Number(t.toPrecision(3));function te(t){return t==null?"–":t===0?"$0":t<.01?`$${t.toPrecision(2)}`:`$${t.toFixed(t<1?3:2)}`}function j(t){if(t==null)return"–";let e=["B","KiB","MiB","GiB"],n=0,s=t;for(;s>=1024&&n<e.length-1;)s/=1024,n+=1;return`${n===0||s>=10?Math.round(s):s.toFixed(1)} ${e[n]}`}function U(t){if(t==null)return"–";if(t<1e3)return`${Math.round(t)} ms`;if(t<9950)return`${(t/1e3).toFixed(1)} s`;let e=Math.round(t/1e3);if(e<60)return`${e} s`;let n=Math.floor(e/60);return n<60?`${n} min ${e%60} s`:`${Math.floor(n/60)} h ${n%60} min`}function de(t){if(!t)return"–";let e=new Date(t);return[e.getHours(),e.getMinutes(),e.getSeconds()].map(n=>String(n).padStart(2,"0")).join(":")}var pe=t=>t?tm(new Date(t)):"–",sm=[["sec.",60],["min.",60],["hr.",24],["day",30],["mo.",12],["yr.",1/0]],om=864e5,im=43200,Da=t=>new Date(t).setHours(0,0,0,0);function Wa(t,e){let n=(new Date(t).getTime()-e)/1e3,s=Math.round((Da(t)-Da(e))/om);if(n<-im&&s<0&&s>-30)return Fa(s,"day");for(let[o,i]of sm){let r=Math.round(n);if(Math.abs(r)<i)return Fa(r,o);n/=i}return""}function Fa(t,e){if(t===0)return"now";if(e==="day"&&Math.abs(t)===1)return t<0?"yesterday":"tomorrow";let n=`${Math.abs(t)} ${e}${e==="day"?"s":""}`;return t<0?`${n} ago`:`in ${n}`}var J=t=>t==null||Number.isNaN(t)?"–":`${Math.round(t*100)}%`,Ba=/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu,Ai=/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[ -/]+[0-~]|[@-Z\\-_])/g;function R(t){return t.replace(Ai,"").replace(/\r\n/g,`
`).replace(Ba,Ua)}var At=t=>t.replace(Ba,Ua),_=t=>R(t).replace(/[\n\t]/g," "),qa=t=>_(t.replace(/^[ \t]*(?:#{1,6}|>|[-*+]|\d{1,3}\.)[ \t]+/gm,"").replace(/^[ \t]*(?:```|~~~).*$/gm,"").replace(/!?\[([^\][\n]*)\]\([^()\s]*\)/g,"$1").replace(/\*\*|__|`/g,"")).trim(),ge=({title:t,task:e,id:n})=>_(t||e||n);function Ua(t){let e=t.codePointAt(0);return e<32?String.fromCharCode(9216+e):`‹U+${e.toString(16).toUpperCase().padStart(4,"0")}›`}var K,ja,Ni,vt,Ri,Ns,Ha,Ls,Ka,Pi,Li,Ga,Nn=Symbol.for("pv"),Ps={},Ds=[],rm=/^m(i|n|o|s|text|space)$/,Di=Array.isArray,Fi=Ds.slice,Lt=Object.assign;function Rt(t){t&&t.parentNode&&t.remove()}function Ye(t,e,n){var s,o,i,r={},l=arguments.length;for(i in e)i=="key"?s=e[i]:i=="ref"&&typeof t!="function"?o=e[i]:r[i]=e[i];return l>2&&(r.children=l>3?Fi.call(arguments,2):n),In(t,r,s,o,null)}function In(t,e,n,s,o){var i={type:t,props:e,key:n,ref:s,__k:null,__:null,__b:0,__e:null,__c:null,constructor:Nn,__v:o||++ja,__i:-1,__u:0};return!o&&K.vnode&&K.vnode(i),i}function _t(t){return t.children}function Kt(t,e){this.props=t,this.context=e,this.__g=0}function yt(t,e){if(e==null)return t.__&&yt(t.__,t.__i+1);for(var n;e<t.__k.length;e++)if((n=t.__k[e])&&n.__e)return n.__e;return typeof t.type!="function"||t.props.__P?null:yt(t)}function am(t){var e,n=t.__v,s=n.__e,o=[],i=[],r=t.__P;r&&((e=Lt({constructor:Nn},n)).__v=n.__v+1,K.vnode&&K.vnode(e),Wi(r,e,n,t.__n,r.namespaceURI,32&n.__u?[s]:null,o,s||yt(n),32&n.__u,i),e.__v=n.__v,e.__.__k[e.__i]=e,Za(o,e,i),n.__=n.__e=null,e.__e!=s&&Va(e))}function Va(t){if((t=t.__)&&t.__c&&!t.props.__P)return t.__e=null,t.__k.some(function(e){return e&&(t.__e=e.__e)}),Va(t)}function Ii(t){(8&t.__g||(t.__g|=8,vt.push(t),Ns++))&&Ri==K.debounceRendering||((Ri=K.debounceRendering)||queueMicrotask)(Ya)}function Ya(){try{for(var t,e=1;vt.length;)vt.length>e&&vt.sort(Ha),t=vt.shift(),e=vt.length,8&t.__g&&am(t)}finally{(Ns=vt.length)&&(Ri||queueMicrotask)(Ya)}}function Ja(t,e,n,s,o,i,r,l,c,u,d){var f,h,p,m,x,S,T=s.__k||Ds,k=e.length;for(c=lm(n,e,T,c,k),f=0;f<k;f++)(p=n.__k[f])!=null&&(h=~p.__i&&T[p.__i]||Ps,p.__i=f,S=Wi(t,p,h,o,i,r,l,c,u,d),m=p.__e,(h.ref!=p.ref||8&h.__u)&&(h.ref&&Bi(h.ref,null,p,h),p.ref&&d.push(p.ref,p.__c||m,p)),x=x||m,4&p.__u?(c=Xa(p,c,t,!h.__v),h.__e&&(h.__e=null)):typeof p.type=="function"&&S!==void 0?c=S:m&&(c=m.nextSibling),p.__u&=-21);return n.__e=x,c}function lm(t,e,n,s,o){var i,r,l,c,u,d,f,h,p,m=n.length,x=m,S=0,T=0,k=t.__k=Array(o);for(i=0;i<o;i++)(r=e[i])!=null&&typeof r!="boolean"&&typeof r!="function"?(typeof r!="object"||r.constructor===String?r=k[i]=In(null,r):Di(r)?r=k[i]=In(_t,{children:r}):r.constructor===Nn&&r.__b?r=k[i]=In(r.type,r.props,r.key,r.ref,r.__v):k[i]=r,c=i+S,r.__=t,r.__b=t.__b+1,l=null,~(u=r.__i=cm(r,n,c,x))&&(x--,(l=n[u])&&(l.__u|=2)),l&&l.__v?(r.__u|=16,u==c-1?S--:u==c+1?S++:u!=c&&(u>c?S--:S++,T=1)):(~u||(o>m?S--:o<m&&S++),typeof r.type!="function"&&(r.__u|=4))):k[i]=null;if(T){for(d=[],f=[],i=0;i<o;i++)if((r=k[i])&&16&r.__u){for(S=0,h=d.length;S<h;)d[p=S+h>>1]<r.__i?S=p+1:h=p;d[S]=r.__i,f[i]=S+1}for(S=d.length;i--;)f[i]&&(f[i]==S?S--:k[i].__u|=4)}if(x)for(i=0;i<m;i++)!(l=n[i])||2&l.__u||(l.__e==s&&(s=yt(l)),qi(l,l));return s}function Xa(t,e,n,s){var o,i,r,l;if(typeof t.type=="function"){if(t.props.__P)return e;if(o=t.__k)for(i=0;i<o.length;i++)o[i]&&(o[i].__=t,e=Xa(o[i],e,n,!1));return e}for(e&&!e.parentNode&&(e=yt(t))&&!e.parentNode&&(e=null),r=t.__e,l=e;l&&l.nodeType==8;)l=l.nextSibling;for(r!=l&&(!s&&n.moveBefore&&r.parentNode?n.moveBefore(r,e):n.insertBefore(r,e||null)),e=r;(e=e&&e.nextSibling)&&e.nodeType==8&&!e.data.startsWith("$s"););return e}function cm(t,e,n,s){var o,i=t.key,r=t.type,l=e[n],c=l&&!(2&l.__u);if(l===null&&i==null||c&&i==l.key&&r==l.type)return n;if(s>(c?1:0)){for(o=n-1;o>=0;o--)if((l=e[o])&&!(2&l.__u)&&i==l.key&&r==l.type)return o;for(o=n+1;o<e.length;o++)if((l=e[o])&&!(2&l.__u)&&i==l.key&&r==l.type)return o}return-1}function za(t,e,n){n==null&&(n=""),e[0]=="-"?t.setProperty(e,n):t[e]=n}function Rs(t,e,n,s,o){var i,r;if(e=="style")if(typeof n=="string")t.style.cssText=n;else{if(typeof s=="string"&&(t.style.cssText=s=""),s)for(e in s)n&&e in n||za(t.style,e);if(n)for(e in n)s&&n[e]==s[e]||za(t.style,e,n[e])}else if(e[0]=="o"&&e[1]=="n")typeof n!="function"&&(n=null),typeof s!="function"&&(s=null),(t.__e||(t.__e={}))[e]=n,n&&s||(r=Li[e]||(Li[e]=um(e)),(t.__a||(t.__a={}))[e]=Pi,i=e!=(e=e.replace(Ka,"$1")),(e=e.slice(2))[0]<"a"&&(e=e.toLowerCase()),n?t.addEventListener(e,r,i):t.removeEventListener(e,r,i));else{if(o=="http://www.w3.org/2000/svg")e=e.replace(/xlink(H|:h)/,"h").replace(/sName$/,"s");else if(e!="width"&&e!="height"&&e!="href"&&e!="list"&&e!="form"&&e!="tabIndex"&&e!="download"&&e!="rowSpan"&&e!="colSpan"&&e!="role"&&e!="popover"&&e in t)try{return void(t[e]=n??"")}catch{}if(typeof n=="function")return;n==null||n===!1&&e[4]!="-"?t.removeAttribute(e):t.setAttribute(e,e=="popover"&&n==1?"":n)}}function um(t){return function(e){var n=this.__e;if(n){if(n=n[t],e[Ls]==null)e[Ls]=Pi++;else if(e[Ls]<this.__a[t])return;return n(K.event?K.event(e):e)}}}function Wi(t,e,n,s,o,i,r,l,c,u){var d,f,h,p,m,x,S,T,k,O,I,V,le,Q,$e,gt,ke,Ce,fe=e.type;if(e.constructor!==Nn)return null;128&n.__u&&(c=32&n.__u,d=n.__c.__z)&&(e.__u|=c,f=i=[],d.nodeType==8?l=Is(d,i):i.push(d),l=i[0]||l),(d=K.__b)&&d(e);e:if(typeof fe=="function"){h=r.length;try{if(T=e.props,k=(d=fe.prototype)&&d.render,O=(d=fe.contextType)&&s[d.__c],I=d?O?O.props.value:d.__:s,(p=n.__c)?(e.__c=p,2&p.__g&&(p.__g|=1)):(k?e.__c=p=new fe(T,I):(e.__c=p=new Kt(T,I),p.constructor=fe,p.render=fm),O&&O.sub(p),p.state||(p.state={}),p.__n=s,p.__g|=8,p.__h=[],p.__k=[]),k&&(p.__s||(p.__s=p.state),fe.getDerivedStateFromProps&&(p.__s==p.state&&(p.__s=Lt({},p.__s)),Lt(p.__s,fe.getDerivedStateFromProps(T,p.__s)))),m=p.props,x=p.state,p.__v=e,n.__c){if(T!==m&&k&&!fe.getDerivedStateFromProps&&p.componentWillReceiveProps&&p.componentWillReceiveProps(T,I),e.__v==n.__v&&!(8&p.__g)||!(4&p.__g)&&p.shouldComponentUpdate&&p.shouldComponentUpdate(T,p.__s,I)===!1){e.__v!=n.__v&&(p.props=T,p.state=p.__s,p.__g&=-9),e.__e=n.__e,e.__k=n.__k,e.__k.some(function(_e){_e&&(_e.__=e)}),Ds.push.apply(p.__h,p.__k),p.__k=[],p.__h.length&&r.push(p),l=yt(n);break e}p.componentWillUpdate&&p.componentWillUpdate(T,p.__s,I),k&&p.componentDidUpdate&&p.__h.push(function(){p.componentDidUpdate(m,x,S)})}else k&&!fe.getDerivedStateFromProps&&p.componentWillMount&&p.componentWillMount(),k&&p.componentDidMount&&p.__h.push(p.componentDidMount);p.context=I,p.props=T,p.__P=t,p.__g&=-5,V=K.__r,le=k?25:0;do p.__g&=-9,V&&V(e),d=p.render(p.props,p.state=p.__s,p.context);while(8&p.__g&&++le<25);k&&(Ds.push.apply(p.__h,p.__k),p.__k=[]),p.state=p.__s,p.getChildContext&&(s=Lt({},s,p.getChildContext())),k&&n.__c&&p.getSnapshotBeforeUpdate&&(S=p.getSnapshotBeforeUpdate(m,x)),Q=d&&d.type===_t&&d.key==null?d.props.children:d,T.__P&&(d=l,o=(t=T.__P).namespaceURI,c=i=null,n.props&&n.props.__P!=t&&(n.__k.some(function(_e){_e&&qi(_e,_e)}),n.__k=null),l=n.__k?yt(n,0):null),l=Ja(t,Di(Q)?Q:[Q],e,n,s,o,i,r,l,c,u),T.__P&&(e.__e=null,l=d),e.__u&=-161,f&&f.some(Rt),p.__h.length&&r.push(p),1&p.__g&&(p.__g&=-4)}catch(_e){if(r.length=h,e.__v=null,c||i)if(_e&&_e.then){if(e.__u|=128|c,i){for(~(ke=i.indexOf(l||void 0))||(ke=i.length);(Ce=i[ke-1])&&Ce.nodeType==8;)ke--;for(;ke<i.length;ke++)if(Ce=i[ke])if(i[ke]=null,$e){if(Ce==gt)break}else{if(Ce.nodeType!=8)break;Ce.data.startsWith("$s")&&(gt=Is($e=Ce))}}if(!$e){for(;l&&l.nodeType==8&&l.nextSibling;)l=l.nextSibling;$e=l}(d=Is($e=e.__c.__z||(e.__c.__z=$e)))?(e.__e=$e,l=d):e.__e=l,l=l&&l.nextSibling}else i&&i.some(Rt);else e.__e=n.__e;e.__k||(e.__k=n.__k||[]),_e&&_e.then||Qa(e),K.__e(_e,e,n)}}else l=e.__e=dm(n.__e,e,n,s,o,i,r,c,u,t);return(d=K.diffed)&&d(e),l}function Is(t,e){if(t&&t.nodeType==8&&t.data.startsWith("$s"))for(var n=1;t=t.nextSibling;){if(t.nodeType==8){if(t.data.startsWith("$s"))n++;else if(t.data.startsWith("/$s")&&!--n)return t}e&&e.push(t)}}function Qa(t){t&&(t.__c&&(t.__c.__g|=4),t.__k&&t.__k.some(Qa))}function Za(t,e,n){for(var s=0;s<n.length;)Bi(n[s++],n[s++],n[s++]);K.__c&&K.__c(e,t),t.some(function(o){try{t=o.__h,o.__h=[],t.some(function(i){i.call(o)})}catch(i){K.__e(i,o.__v)}})}function dm(t,e,n,s,o,i,r,l,c,u){var d,f,h,p,m,x,S,T,k=n.props||Ps,O=e.props,I=e.type;if(I=="svg"?o="http://www.w3.org/2000/svg":I=="math"?o="http://www.w3.org/1998/Math/MathML":o||(o="http://www.w3.org/1999/xhtml"),i){for(d=0;d<i.length;d++)if((m=i[d])&&(I?m.localName==I:m.nodeType==3)){t=m,i[d]=null;break}}if(!t){if(T=u.ownerDocument||document,!I)return T.createTextNode(O);t=T.createElementNS(o,I,O.is?O:u),l&&(K.__m&&K.__m(e,i),l=!1),i=null}if(I){if(u=I=="template"&&t.content||t,i=I=="textarea"&&O.defaultValue!=null?null:i&&Fi.call(u.childNodes),!l&&i)for(k={},d=0;d<t.attributes.length;d++)k[(m=t.attributes[d]).name]=m.value;for(d in k)m=k[d],d=="dangerouslySetInnerHTML"?h=m:d=="children"||d in O||d=="value"&&"defaultValue"in O||d=="checked"&&"defaultChecked"in O||Rs(t,d,null,m,o);for(d in O)m=O[d],d=="children"?p=m:d=="dangerouslySetInnerHTML"?f=m:d=="value"?x=m:d=="checked"?S=m:l&&typeof m!="function"||k[d]===m||Rs(t,d,m,k[d],o);f?(l||h&&(f.__html==h.__html||f.__html==t.innerHTML)||(t.innerHTML=f.__html),e.__k=[]):(h&&(t.textContent=""),(I=="foreignObject"||o=="http://www.w3.org/1998/Math/MathML"&&rm.test(I))&&(o="http://www.w3.org/1999/xhtml"),Ja(u,Di(p)?p:[p],e,n,s,o,i,r,i?i[0]:n.__k&&yt(n,0),l,c),i&&i.some(Rt)),l&&I!="textarea"||(d="value",I=="progress"&&x==null?t.removeAttribute(d):x==null||x===t[d]&&(I!="progress"||x)||Rs(t,d,x,k[d],o),d="checked",S!=null&&S!=t[d]&&Rs(t,d,S,k[d],o))}else k===O||l&&t.data==O||(t.data=O);return t}function Bi(t,e,n,s){try{typeof t=="function"?e?e.__x=t(e)||1:s&&(s=s.__c||s.__e)&&(e=s.__x)&&(s.__x=null,typeof e=="function"?e():t(null)):t.current=e}catch(o){K.__e(o,n)}}function qi(t,e,n){var s,o,i,r;if(K.unmount&&K.unmount(t),!(s=t.ref)||s.current&&s.current!=t.__e||Bi(s,null,e,t),s=t.__c){if(s.componentWillUnmount)try{s.componentWillUnmount()}catch(l){K.__e(l,e)}s.__P=s.__n=null}if(s=t.__k)for(r=0;r<s.length;r++)s[r]&&qi(s[r],e,typeof t.type!="function"||n&&!t.props.__P);!n&&(s=t.__c)&&(s=s.__z)&&(o=Is(s,i=[]))&&(s==t.__e&&i.some(Rt),Rt(o),Rt(s)),n||Rt(t.__e),t.__e=t.__c=t.__=null}function fm(t,e,n){return this.constructor(t,n)}function Ui(t,e){var n,s,o,i;K.__&&K.__(t,e),e.nodeType==9&&(e=e.documentElement),s=(n=t&&32&t.__u)?null:e.__k,e.__k=In(_t,{children:[t]}),o=[],i=[],Wi(e,e.__k,s||Ps,Ps,e.namespaceURI,s?null:e.firstChild?Fi.call(e.childNodes):null,o,s?s.__e:e.firstChild,n,i),Za(o,e.__k,i),e.__k.props.children=null}function It(t){function e(n){var s,o;return this.getChildContext||(s=new Set,(o={})[e.__c]=this,this.getChildContext=function(){return o},this.shouldComponentUpdate=function(i){this.props.value!=i.value&&s.forEach(function(r){r.__g|=4,Ii(r)})},this.sub=function(i){s.add(i);var r=i.componentWillUnmount;i.componentWillUnmount=function(){s.delete(i),r&&r.call(i)}}),n.children}return e.__c="__cC"+Ga++,e.__=t,e.Provider=(e.Consumer=function(n,s){return n.children(s)}).contextType=e,e}K={__e:function(t,e,n,s){for(var o,i,r;e=e.__;)if((o=e.__c)&&!(1&o.__g)){o.__g|=4;try{if((r=(i=o.constructor)&&i.getDerivedStateFromError)&&o.setState(i.getDerivedStateFromError(t)),o.componentDidCatch&&(o.componentDidCatch(t,s||{}),r=1),r&&8&o.__g)return void(o.__g|=2)}catch(l){t=l}}throw Ns=0,t}},ja=0,Ni=function(t){return t!=null&&t.constructor===Nn},Kt.prototype.setState=function(t,e){var n=this.__s;n&&n!=this.state||(n=this.__s=Lt({},this.state)),typeof t=="function"&&(t=t(Lt({},n),this.props)),t&&(Lt(n,t),this.__v&&(e&&this.__k.push(e),Ii(this)))},Kt.prototype.forceUpdate=function(t){this.__v&&(this.__g|=4,t&&this.__h.push(t),Ii(this))},Kt.prototype.render=_t,vt=[],Ns=0,Ha=function(t,e){return t.__v.__b-e.__v.__b},Ls=Symbol(),Ka=/(PointerCapture)$|Capture$/i,Pi=0,Li={},Ga=0;var bt,ne,zi,el,ji=Object.is,Dn=0,cl=[],Hi=[],ie=K,tl=ie.__b,nl=ie.__r,sl=ie.diffed,ol=ie.__c,il=ie.unmount,rl=ie.__;function Gt(t,e){ie.__h&&ie.__h(ne,t,Dn||e),Dn=0;var n=ne.__H||(ne.__H={__:[],__h:[]});return t>=n.__.length&&n.__.push({}),n.__[t]}function y(t){return Dn=1,pm(ul,t)}function pm(t,e,n){var s=Gt(bt++,2);if(s.t=t,!s.__c&&(s.__=[n?n(e):ul(void 0,e),function(i){var r=(s.__N||s.__)[0],l=s.t(r,i);ji(r,l)||(s.__N=[l,s.__[1]],s.__c.setState({}))}],s.__c=ne,!ne.__f)){ne.__f=!0;var o=ne.shouldComponentUpdate;ne.shouldComponentUpdate=function(i,r,l){var c=this.__H;if(!c)return!0;var u=!1,d=this.props!=i;if(c.__.some(function(h){h.__N&&(u=!0,ji(h.__[0],h.__N[0])||(d=!0))}),o){var f=o.call(this,i,r,l);return u?f||d:f}return!u||d}}return s.__}function v(t,e){var n=Gt(bt++,3);!ie.__s&&Gi(n.__H,e)&&(n.__P=!0,n.__=t,n.u=e,ne.__H.__h.push(n))}function M(t,e){var n=Gt(bt++,4);!ie.__s&&Gi(n.__H,e)&&(n.__P=!1,n.__=t,n.u=e,ne.__h.push(n))}function w(t){return Dn=5,N(function(){return{current:t}},[])}function N(t,e){var n=Gt(bt++,7);return Gi(n.__H,e)&&(n.__=t(),n.__H=e),n.__}function Nt(t,e){return Dn=8,N(function(){return t},e)}function z(t){var e=ne.context[t.__c],n=Gt(bt++,9);return n.c=t,e?(n.__==null&&(n.__=!0,e.sub(ne)),e.props.value):t.__}function L(){var t=Gt(bt++,11);if(!t.__){for(var e=ne.__v;!e.__m&&e.__;)e=e.__;var n=e.__m||(e.__m=[0,0]);t.__="P"+n[0]+"-"+n[1]++}return t.__}function hm(){var t;do{for(;t=Hi.shift();)try{Pn(t)}catch(n){ie.__e(n,{__:(t=t.__P)&&t.__v})}for(;t=cl.shift();){var e=t.__H;if(t.__P&&e)try{e.__h.some(Pn),e.__h.some(Ki),e.__h=[]}catch(n){e.__h=[],ie.__e(n,t.__v)}}}while(Hi.length)}ie.__b=function(t){ne=null,tl&&tl(t)},ie.__=function(t,e){t&&e.__k&&e.__k.__m&&(t.__m=e.__k.__m),rl&&rl(t,e)},ie.__r=function(t){nl&&nl(t),bt=0;var e=(ne=t.__c).__H;e&&(zi==ne?ne.__h=[]:(e.__h.some(Pn),e.__h.some(Ki),bt=0),e.__h=[],e.__.some(function(n){n.__N&&(n.__=n.__N),n.u=n.__N=void 0})),zi=ne},ie.diffed=function(t){sl&&sl(t);var e=t.__c;e&&e.__H&&(e.__H.__h.length&&ll(cl.push(e)),e.__H.__.some(function(n){n.u&&(n.__H=n.u)})),zi=ne=null},ie.__c=function(t,e){e.some(function(n){try{n.__h.some(Pn),n.__h=n.__h.filter(function(s){return!s.__||Ki(s)})}catch(s){n.__h=[function(){throw s}]}}),ol&&ol(t,e)},ie.unmount=function(t){il&&il(t);var e,n,s=t.__c;s&&s.__H&&(s.__H.__.some(function(o){try{if(o.__P&&o.__c){if(n===void 0){for(n=t.__;n&&(!n.__c||!n.__c.__P);)n=n.__;n=n&&n.__c}o.__P=n,ll(Hi.push(o))}else Pn(o)}catch(i){e=i}}),s.__H=void 0,e&&ie.__e(e,s.__v))};var al=typeof requestAnimationFrame=="function";function mm(t){var e,n=function(){clearTimeout(s),al&&cancelAnimationFrame(e),setTimeout(t)},s=setTimeout(n,35);al&&(e=requestAnimationFrame(n))}function ll(t){t!=1&&el==ie.requestAnimationFrame||((el=ie.requestAnimationFrame)||mm)(hm)}function Pn(t){var e=ne,n=t.__c;typeof n=="function"&&(t.__c=void 0,n()),ne=e}function Ki(t){var e=ne;t.__c=t.__(),ne=e}function Gi(t,e){return!t||t.length!=e.length||e.some(function(n,s){return!ji(n,t[s])})}function ul(t,e){return typeof e=="function"?e(t):e}var $m=Symbol.for("preact-signals");function qs(){if(nt>1){nt--;return}let t,e=!1;for((function(){let n=Fs;for(Fs=void 0;n!==void 0;){let s=n.S;if(s.v===n.v)for(let o=s.t;o!==void 0;o=o.x)o.i===n.i&&(o.i=s.i);n=n.o}})();Wn!==void 0;){let n=Wn;for(Wn=void 0,Ws++;n!==void 0;){let s=n.u;if(n.u=void 0,n.f&=-3,!(8&n.f)&&fl(n))try{n.c()}catch(o){e||(t=o,e=!0)}n=s}}if(Ws=0,nt--,e)throw t}function D(t){if(nt>0)return t();Vi=++gm,nt++;try{return t()}finally{qs()}}var Z,Fn,Wn;function Ae(t){let e=Z,n=Fn;Z=void 0,Fn=void 0;try{return t()}finally{Z=e,Fn=n}}var Fs,nt=0,Ws=0,gm=0,Vi=0,Bs=0;function dl(t){if(Z===void 0)return;let e=t.n;if(e===void 0||e.t!==Z)return e={i:0,S:t,p:Z.s,n:void 0,t:Z,e:void 0,x:void 0,r:e},Z.s!==void 0&&(Z.s.n=e),Z.s=e,t.n=e,32&Z.f&&t.S(e),e;if(e.i===-1)return e.i=0,e.n!==void 0&&(e.n.p=e.p,e.p!==void 0&&(e.p.n=e.n),e.p=Z.s,e.n=void 0,Z.s.n=e,Z.s=e),e}function ce(t,e){this.v=t,this.i=0,this.n=void 0,this.t=void 0,this.l=0,this.W=e?.watched,this.Z=e?.unwatched,this.name=e?.name}ce.prototype.brand=$m;ce.prototype.h=function(){return!0};ce.prototype.S=function(t){let e=this.t;e!==t&&t.e===void 0&&(t.x=e,this.t=t,e!==void 0?e.e=t:Ae(()=>{var n;(n=this.W)==null||n.call(this)}))};ce.prototype.U=function(t){if(this.t!==void 0){let e=t.e,n=t.x;e!==void 0&&(e.x=n,t.e=void 0),n!==void 0&&(n.e=e,t.x=void 0),t===this.t&&(this.t=n,n===void 0&&Ae(()=>{var s;(s=this.Z)==null||s.call(this)}))}};ce.prototype.subscribe=function(t){return Y(()=>{let e=this.value;Ae(()=>t(e))},{name:"sub"})};ce.prototype.valueOf=function(){return this.value};ce.prototype.toString=function(){return this.value+""};ce.prototype.toJSON=function(){return this.value};ce.prototype.peek=function(){return Ae(()=>this.value)};Object.defineProperty(ce.prototype,"value",{get(){let t=dl(this);return t!==void 0&&(t.i=this.i),this.v},set(t){if(t!==this.v){if(Ws>100)throw new Error("Cycle detected");(function(e){nt!==0&&Ws===0&&e.l!==Vi&&(e.l=Vi,Fs={S:e,v:e.v,i:e.i,o:Fs})})(this),this.v=t,this.i++,Bs++,nt++;try{for(let e=this.t;e!==void 0;e=e.x)e.t.N()}finally{qs()}}}});function g(t,e){return new ce(t,e)}function fl(t){for(let e=t.s;e!==void 0;e=e.n)if(e.S.i!==e.i||!e.S.h()||e.S.i!==e.i)return!0;return!1}function pl(t){for(let e=t.s;e!==void 0;e=e.n){let n=e.S.n;if(n!==void 0&&(e.r=n),e.S.n=e,e.i=-1,e.n===void 0){t.s=e;break}}}function hl(t){let e,n=t.s;for(;n!==void 0;){let s=n.p;n.i===-1?(n.S.U(n),s!==void 0&&(s.n=n.n),n.n!==void 0&&(n.n.p=s)):e=n,n.S.n=n.r,n.r!==void 0&&(n.r=void 0),n=s}t.s=e}function Pt(t,e){ce.call(this,void 0,e),this.x=t,this.s=void 0,this.g=Bs-1,this.f=4}Pt.prototype=new ce;Pt.prototype.h=function(){if(this.f&=-3,1&this.f)return!1;if((36&this.f)==32||(this.f&=-5,this.g===Bs))return!0;if(this.g=Bs,this.f|=1,this.i>0&&!fl(this))return this.f&=-2,!0;let t=Z;try{pl(this),Z=this;let e=this.x();(16&this.f||this.v!==e||this.i===0)&&(this.v=e,this.f&=-17,this.i++)}catch(e){this.v=e,this.f|=16,this.i++}return Z=t,hl(this),this.f&=-2,!0};Pt.prototype.S=function(t){if(this.t===void 0){this.f|=36;for(let e=this.s;e!==void 0;e=e.n)e.S.S(e)}ce.prototype.S.call(this,t)};Pt.prototype.U=function(t){if(this.t!==void 0&&(ce.prototype.U.call(this,t),this.t===void 0)){this.f&=-33;for(let e=this.s;e!==void 0;e=e.n)e.S.U(e)}};Pt.prototype.N=function(){if(!(2&this.f)){this.f|=6;for(let t=this.t;t!==void 0;t=t.x)t.t.N()}};Object.defineProperty(Pt.prototype,"value",{get(){if(1&this.f)throw new Error("Cycle detected");let t=dl(this);if(this.h(),t!==void 0&&(t.i=this.i),16&this.f)throw this.v;return this.v}});function ue(t,e){return new Pt(t,e)}function ml(t){let e=t.j;if(t.j=void 0,typeof e=="function"){nt++;let n=Z;Z=void 0;try{e()}catch(s){throw t.f&=-2,t.f|=8,Yi(t),s}finally{Z=n,qs()}}}function Yi(t){for(let e=t.s;e!==void 0;e=e.n)e.S.U(e);t.x=void 0,t.s=void 0,ml(t)}function vm(t){if(Z!==this)throw new Error("Out-of-order effect");hl(this),Z=t,this.f&=-2;try{8&this.f&&Yi(this)}finally{qs()}}function Vt(t,e){this.x=t,this.j=void 0,this.s=void 0,this.u=void 0,this.f=32,this.name=e?.name,Fn&&Fn.push(this)}Vt.prototype.c=function(){let t=this.S();try{if(8&this.f||this.x===void 0)return;let e=this.x();typeof e=="function"&&(this.j=e)}finally{t()}};Vt.prototype.S=function(){if(1&this.f)throw new Error("Cycle detected");this.f|=1,this.f&=-9,ml(this),pl(this),nt++;let t=Z;return Z=this,vm.bind(this,t)};Vt.prototype.N=function(){2&this.f||(this.f|=2,this.u=Wn,Wn=this)};Vt.prototype.d=function(){this.f|=8,1&this.f||Yi(this)};Vt.prototype.dispose=function(){this.d()};function Y(t,e){let n=new Vt(t,e);try{n.c()}catch(o){throw n.d(),o}let s=n.d.bind(n);return s[Symbol.dispose]=s,s}var ym=typeof window<"u"&&!!window.__PREACT_SIGNALS_DEVTOOLS__,Ji,Yt,Us,$l=[],gl=[];Y(function(){Ji=this.N})();function Jt(t,e){K[t]=e.bind(null,K[t]||(()=>{}))}function Bn(t){if(Us){let e=Us;Us=void 0,e()}Us=t&&t.S()}function vl({data:t}){let e=q(t);e.name="ReactiveDom",e.value=t;let[n,s]=N(()=>{let o=this,i=this.__v;for(;i=i.__;)if(i.__c){i.__c.__$f|=4;break}let r=ue(()=>{let d=e.value.value;return d===0?0:d===!0?"":d||""}),l=ue(()=>!Array.isArray(r.value)&&!Ni(r.value)),c=Y(function(){if(this.N=yl,l.value){let d=r.value;o.__v&&o.__v.__e&&o.__v.__e.nodeType===3&&(o.__v.__e.data=d)}}),u=this.__$u.d;return this.__$u.d=function(){c(),u.call(this)},[l,r]},[]);return n.value?s.peek():s.value}vl.displayName="ReactiveTextNode";Object.defineProperties(ce.prototype,{constructor:{configurable:!0,value:Ye(_t,null).constructor},type:{configurable:!0,value:vl},props:{configurable:!0,get(){let t=this;return{data:{get value(){return t.value}}}}},__b:{configurable:!0,value:1}});Jt("__b",(t,e)=>{if(Bn(),Yt=void 0,typeof e.type=="string"){let n,s=e.props;for(let o in s){if(o==="children")continue;let i=s[o];i instanceof ce&&(n||(e.__np=n={}),n[o]=i,s[o]=i.peek())}}t(e)});Jt("__r",(t,e)=>{if(t(e),e.type!==_t){Bn();let n,s=e.__c;s&&(s.__$f&=-2,n=s.__$u,n===void 0&&(s.__$u=n=(function(o,i){let r;return Y(function(){r=this},{name:i}),r.c=o,r})((function(o){return function(){var i;ym&&((i=this.y)==null||i.call(this)),o.__$f|=1,o.setState({})}})(s),typeof e.type=="function"?e.type.displayName||e.type.name:""))),Yt=s,Bn(n)}});Jt("__e",(t,e,n,s)=>{Bn(),Yt=void 0,t(e,n,s)});Jt("diffed",(t,e)=>{Bn(),Yt=void 0;let n;if(typeof e.type=="string"&&(n=e.__e)){let s=e.__np,o=e.props,i=n.U;if(i)for(let r in i){let l=i[r];l===void 0||s&&r in s||(l.d(),i[r]=void 0)}if(s){i||(i={},n.U=i);for(let r in s){let l=i[r],c=s[r];l===void 0?(l=_m(n,r,c,o),i[r]=l):l.o(c,o)}}}t(e)});function _m(t,e,n,s){let o=e in t&&t.ownerSVGElement===void 0,i=g(n);return{o:(r,l)=>{i.value=r,s=l},d:Y(function(){this.N=yl;let r=i.value.value;s[e]!==r&&(s[e]=r,o?t[e]=r:r!=null&&(r!==!1||e[4]==="-")?t.setAttribute(e,r):t.removeAttribute(e))})}}Jt("unmount",(t,e)=>{if(typeof e.type=="string"){let n=e.__e;if(n){let o=n.U;if(o){n.U=void 0;for(let i in o){let r=o[i];r&&r.d()}}}let s=e.__np;if(s){let o=e.props;for(let i in s)o[i]=s[i]}e.__np=void 0}else{let n=e.__c;if(n){n.__$f|=8;let s=n.__$u;s&&(n.__$u=void 0,s.d())}}t(e)});Jt("__h",(t,e,n,s)=>{s<3&&(e.__$f|=2),t(e,n,s)});Kt.prototype.shouldComponentUpdate=function(t,e){if(this.__R)return!0;let n=this.__$u,s=n&&n.s!==void 0;for(let o in e)return!0;if(this.__f||typeof this.u=="boolean"&&this.u===!0){let o=2&this.__$f;if(!(s||o||4&this.__$f)||1&this.__$f)return!0}else if(!(s||4&this.__$f)||3&this.__$f)return!0;for(let o in t)if(o!=="__source"&&t[o]!==this.props[o])return!0;for(let o in this.props)if(!(o in t))return!0;return!1};function q(t,e){return N(()=>g(t,e),[])}function Dt(t,e){let n=w(t);return n.current=t,Yt.__$f|=4,N(()=>ue(()=>n.current(),e),[])}var bm=typeof requestAnimationFrame>"u"?setTimeout:function(t){let e=()=>{clearTimeout(n),cancelAnimationFrame(s),t()},n=setTimeout(e,35),s=requestAnimationFrame(e)},wm=t=>{queueMicrotask(()=>{queueMicrotask(t)})};function xm(){D(()=>{let t;for(;t=$l.shift();)Ji.call(t)})}function km(){$l.push(this)===1&&(K.requestAnimationFrame||bm)(xm)}function Sm(){D(()=>{let t;for(;t=gl.shift();)Ji.call(t)})}function yl(){gl.push(this)===1&&(K.requestAnimationFrame||wm)(Sm)}function qn(t,e){let n=w(t);n.current=t;let s=Yt;v(()=>Y(function(){if(this.N=km,!(s&&8&s.__$f))return n.current()},e),[])}var bl=function(t,e,n,s){var o;e[0]=0;for(var i=1;i<e.length;i++){var r=e[i++],l=e[i]?(e[0]|=r?1:2,n[e[i++]]):e[++i];r===3?s[0]=l:r===4?s[1]=Object.assign(s[1]||{},l):r===5?(s[1]=s[1]||{})[e[++i]]=l:r===6?s[1][e[++i]]+=l+"":r?(o=t.apply(l,bl(t,l,n,["",null])),s.push(o),l[0]?e[0]|=2:(e[i-2]=0,e[i]=o)):s.push(l)}return s},_l=new Map;function wl(t){var e=_l.get(this);return e||(e=new Map,_l.set(this,e)),(e=bl(this,e.get(t)||(e.set(t,e=(function(n){for(var s,o,i=1,r="",l="",c=[0],u=function(h){i===1&&(h||(r=r.replace(/^\s*\n\s*|\s*\n\s*$/g,"")))?c.push(0,h,r):i===3&&(h||r)?(c.push(3,h,r),i=2):i===2&&r==="..."&&h?c.push(4,h,0):i===2&&r&&!h?c.push(5,0,!0,r):i>=5&&((r||!h&&i===5)&&(c.push(i,0,r,o),i=6),h&&(c.push(i,h,0,o),i=6)),r=""},d=0;d<n.length;d++){d&&(i===1&&u(),u(d));for(var f=0;f<n[d].length;f++)s=n[d][f],i===1?s==="<"?(u(),c=[c],i=3):r+=s:i===4?r==="--"&&s===">"?(i=1,r=""):r=s+r[0]:l?s===l?l="":r+=s:s==='"'||s==="'"?l=s:s===">"?(u(),i=1):i&&(s==="="?(i=5,o=r,r=""):s==="/"&&(i<5||n[d][f+1]===">")?(u(),i===3&&(c=c[0]),i=c,(c=c[0]).push(2,0,i),i=0):s===" "||s==="	"||s===`
`||s==="\r"?(u(),i=2):r+=s),i===3&&r==="!--"&&(i=4,c=c[0])}return u(),c})(t)),e),arguments,[])).length>1?e:e[0]}var a=wl.bind(Ye);var Xt=class{#e=null;#t;#n;constructor(e,n){this.#t=e,this.#n=n,this.heard()}heard(){clearTimeout(this.#e),this.#e=setTimeout(this.#n,this.#t)}stop(){clearTimeout(this.#e)}};var Oe=g(!1),qe=class extends Error{constructor(e,n,s=null){super(n.detail||n.title||`The server responded with status ${e}.`),this.name="Problem",this.status=e,this.code=n.code??"unknown",this.title=n.title??"",this.detail=n.detail??"",this.body=n,this.retryAfterS=s}get mayPass(){return this.status<400||this.status>=500||[401,408,429].includes(this.status)}},Em=3e4,Cm=300,kl=!1,Sl=()=>kl,El=0;function st(){return Date.now()+El}async function be(t,e,{body:n,headers:s={},signal:o,raw:i}={}){let r={method:t,headers:{...s},signal:o,credentials:"same-origin",cache:"no-store"};i!==void 0?r.body=i:n!==void 0&&(r.headers["Content-Type"]="application/json",r.body=JSON.stringify(n));let l=await Cl(e,r),c=Date.parse(l.headers.get("Date")??"")-(l.arrivedAt??Date.now());if(Number.isNaN(c)||(El=Math.abs(c)>2e3?c:0),l.ok)return kl=!0,l;let u=Number.parseInt(l.headers.get("Retry-After")??"",10),d=new qe(l.status,await Mm(l),Number.isNaN(u)?null:u);throw l.status===401&&(Oe.value=!0),d}async function Cl(t,e,n=!1){try{return await(Om(t,e)??fetch(t,e))}catch(s){if(e.signal?.aborted)throw s;if(e.method==="GET"&&!n)return await new Promise(o=>setTimeout(o,Cm)),Cl(t,e,!0);throw new qe(0,Tl)}}function Om(t,{method:e,signal:n}){let s=e==="GET"?globalThis.sentRequests?.get(t):void 0;if(!s)return;globalThis.sentRequests.delete(t);let o=()=>s.abort.abort(n.reason);return n?.aborted&&o(),n?.addEventListener("abort",o,{once:!0}),s.response}function Ol(){for(let{abort:t}of globalThis.sentRequests?.values()??[])t.abort();globalThis.sentRequests?.clear()}var Tl={code:"unreachable",detail:"The server cannot be reached."},Tm={code:"timeout",detail:"The server took too long to respond."};async function Mm(t){try{return await t.json()}catch{return{title:t.statusText}}}async function Je(t,e,n){if(t!=="GET")return xl(await be(t,e,n));let s=new AbortController,o=new Xt(Em,()=>s.abort(new qe(0,Tm)));try{let{body:i}=await be(t,e,{...n,signal:s.signal});return await xl(new Response(i.pipeThrough(Am(o))))}catch(i){throw s.signal.aborted?s.signal.reason:i}finally{o.stop()}}function Am(t){return new TransformStream({transform(e,n){t.heard(),n.enqueue(e)}})}async function xl(t){if(t.status===204)return null;try{return await t.json()}catch(e){throw e instanceof TypeError?new qe(0,Tl):e}}var E=(t,e)=>Je("GET",t,e),H=(t,e,n)=>Je("POST",t,{...n,body:e??{}}),Re=(t,e)=>Je("PATCH",t,{body:e}),we=t=>Je("DELETE",t);function b(t,...e){return["/v1/sessions",t,...e].map((n,s)=>s?encodeURIComponent(n):n).join("/")}function Qt(t,e){return`${b(t,"files")}/${e.split("/").map(encodeURIComponent).join("/")}`}var Un=g([]),Rm=0,Lm=8e3;function P(t,e="info"){let n=++Rm;Un.value=[...Un.value.slice(-4),{id:n,kind:e,text:t}],setTimeout(()=>Ml(n),Lm)}var re=t=>P(t.message,"error");function Ml(t){Un.value=Un.value.filter(e=>e.id!==t)}function Al(){return a`<div class="notes" role="status" aria-live="polite">
    ${Un.value.map(({id:t,kind:e,text:n})=>a`<p key=${t} class="note ${e}">
        <span>${n}</span>
        <button class="plain" aria-label="Dismiss" onClick=${()=>Ml(t)}>×</button>
      </p>`)}
  </div>`}function C({onClick:t,children:e,disabled:n=!1,kind:s="",...o}){let[i,r]=y(!1),l=w(!0);v(()=>()=>l.current=!1,[]);async function c(u){if(!i){r(!0);try{await t(u)}catch(d){re(d)}finally{l.current&&r(!1)}}}return a`<button
    type="button"
    class=${s}
    disabled=${n}
    aria-disabled=${i?"true":void 0}
    aria-busy=${i}
    onClick=${c}
    ...${o}
  >
    ${e}
  </button>`}function ee({title:t,onClose:e,children:n,wide:s=!1,staysOpen:o=!1}){let i=w(null);M(()=>{let d=i.current;return d.showModal(),()=>d.close()},[]);let r=d=>{d.preventDefault(),e()},l=w(!1);return a`<dialog
    ref=${i}
    class=${s?"wide":""}
    aria-label=${t}
    onCancel=${r}
    onPointerDown=${({target:d})=>l.current=d===i.current}
    onClick=${({target:d})=>!o&&l.current&&d===i.current&&e()}
  >
    <div class="dialog-body">
      <header>
        <h2>${t}</h2>
        <button class="plain" aria-label="Close" onClick=${e}>×</button>
      </header>
      ${n}
    </div>
  </dialog>`}function Te({title:t,text:e,verb:n,onConfirm:s,onClose:o,dismiss:i="Cancel"}){return a`<${ee} title=${t} onClose=${o}>
    <p>${e}</p>
    <footer>
      <button onClick=${o}>${i}</button>
      <${C} kind="danger" onClick=${async()=>(await s(),o())}>${n}<//>
    </footer>
  <//>`}var Le=g(st());setInterval(()=>{document.visibilityState==="visible"&&(Le.value=st())},1e3);function he({time:t}){return a`<time ...${Ue(t)}>${Wa(t,Le.value)}</time>`}var Ue=t=>({datetime:t,onPointerEnter:({currentTarget:e})=>e.title=pe(t)});function W({kind:t,children:e}){return a`<span class="badge ${t}">${e}</span>`}function Zt({session:t}){let{status:e,outcome:n}=t;return e==="awaiting_approval"?a`<${W} kind="waiting">awaiting approval<//>`:e==="awaiting_client"?a`<${W} kind="waiting">awaiting client<//>`:e==="running"?a`<${W} kind="running">running<//>`:n===null?a`<${W} kind="idle">idle<//>`:a`<${W} kind=${Xi(n)}>${n.replace("_"," ")}<//>`}var Xi=t=>({completed:"good",failed:"bad"})[t]??"warn";function F({problem:t,onRetry:e}){return a`<div class="failure" role="alert">
    <p>${t.message}</p>
    <p class="dim">${t.code}</p>
    ${e&&a`<${C} onClick=${e}>Retry<//>`}
  </div>`}var Im={attach:"M13 7.5 8 12.4a3 3 0 0 1-4.3-4.3l5.2-5.2a2 2 0 0 1 2.9 2.9L6.7 10.9a1 1 0 0 1-1.4-1.4L10 4.8",check:"m3 8.5 3.5 3.5L13 4.5",copy:"M6 6V3.5A1.5 1.5 0 0 1 7.5 2h5A1.5 1.5 0 0 1 14 3.5v5a1.5 1.5 0 0 1-1.5 1.5H10M3.5 6h5A1.5 1.5 0 0 1 10 7.5v5A1.5 1.5 0 0 1 8.5 14h-5A1.5 1.5 0 0 1 2 12.5v-5A1.5 1.5 0 0 1 3.5 6Z",down:"m4 6 4 4 4-4",edit:"m9.5 4 2.5 2.5M3 13l.7-3.2L11 2.5a1 1 0 0 1 1.4 0l1.1 1.1a1 1 0 0 1 0 1.4L6.2 12.3Z",file:"M4 1.8h5l3.5 3.5v8.9H4ZM9 2v3.5h3.3",folder:"M1.8 12.8V3.7h4.4l1.6 1.8h6.4v7.3Z",mark:"M2 3h12M2 6.4h7M2 9.8h12M2 13.2h8",memory:"M4 2h8v12l-4-3-4 3Z",plan:"M6.5 4H14M6.5 8H14M6.5 12H14M2 4h1.5M2 8h1.5M2 12h1.5",right:"m6 4 4 4-4 4",search:"M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.6-1.4L14 14",terminal:"m3 4.5 3.5 3.5L3 11.5M8.5 12H13",tool:"M6 2v3.5M10 2v3.5M3.5 5.5h9V8a4.5 4.5 0 0 1-9 0ZM8 12.5V14"};function Xe({name:t}){let e=Ye("path",{d:Im[t]});return Ye("svg",{class:"icon",viewBox:"0 0 16 16",width:16,height:16,"aria-hidden":"true"},e)}function zs({label:t,text:e,onText:n,items:s,empty:o}){let i=L(),r=w(null),[l,c]=y(0),u=Math.min(l,s.length-1);v(()=>c(0),[e]),v(()=>r.current?.children[u]?.scrollIntoView({block:"nearest"}),[u,s]);let d=f=>{if(f.isComposing)return;let h={ArrowDown:u+1,ArrowUp:u-1}[f.key];if(h!==void 0)c((h+s.length)%(s.length||1));else if(f.key==="Enter")s[u]?.choose();else return;f.preventDefault()};return a`<div class="combobox">
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
      onInput=${f=>n(f.currentTarget.value)}
      onKeyDown=${d}
    />
    <ul ref=${r} id=${i} role="listbox" aria-label="Results">
      ${s.map(({key:f,content:h,choose:p},m)=>a`<li
          key=${f}
          id="${i}-${m}"
          role="option"
          aria-selected=${m===u}
          onClick=${p}
          onPointerMove=${()=>c(m)}
        >
          ${h}
        </li>`)}
    </ul>
    <p class="dim" role="status">${s.length===0?o:""}</p>
  </div>`}function js(t,e,n){let[s,o]=y([null,null,null]);return v(()=>{let i=!0,r=u=>i&&o(u),c=setTimeout(()=>e(t).then(u=>r([u,null,t]),u=>r([null,u,t])),t?n:0);return()=>{i=!1,clearTimeout(c)}},[t]),s}var ot=["conversation","context","files","changes","usage","events"],X=g(Qi(location.hash));addEventListener("hashchange",()=>{X.value=Qi(location.hash)});function Qi(t){let[e,n]=t.replace(/^#\/?/,"").split(/\?(.*)/s),s=Object.fromEntries(new URLSearchParams(n)),[o,i,r]=e.split("/").map(Nm);return o==="sessions"&&i?{page:"session",id:i,view:ot.includes(r)?r:ot[0],query:s}:{page:["usage","settings"].includes(o)?o:"sessions",query:s}}function B(t,e=ot[0],n={}){return`#/sessions/${encodeURIComponent(t)}${e===ot[0]?"":`/${e}`}${Hs(n)}`}function ze(t){let e=X.peek().query,n=Object.fromEntries(Object.entries({...e,...t}).filter(([,o])=>o));if(Hs(n)===Hs(e))return;let s=`${location.hash.split("?",1)[0]||"#/"}${Hs(n)}`;history.replaceState(history.state,"",s),X.value=Qi(s)}function se(t){location.hash=t}function Hs(t){let e=new URLSearchParams(t).toString();return e&&`?${e}`}function Nm(t){try{return decodeURIComponent(t)}catch{return t}}function it(t,e,n){let s=g(Pm(`palimpsest-${t}`,e,n));return Y(()=>Fm(`palimpsest-${t}`,s.value,e)),s}function Pm(t,e,n){try{let s=Dm(localStorage.getItem(t));return s!==null&&n(s)?s:e}catch{return e}}function Dm(t){try{return JSON.parse(t)}catch{return t}}function Fm(t,e,n){try{e===n?localStorage.removeItem(t):localStorage.setItem(t,JSON.stringify(e))}catch{}}var zn=["system","light","dark"],rt=it("theme","system",t=>zn.includes(t)),Zi=matchMedia("(prefers-color-scheme: dark)"),Rl=g(Zi.matches);Zi.addEventListener("change",()=>Rl.value=Zi.matches);var Ll=ue(()=>rt.value==="system"?Rl.value:rt.value==="dark");Y(()=>{let{dataset:t}=document.documentElement;rt.value==="system"?delete t.theme:t.theme=rt.value});function Il(t){let e=document.createElement("i");e.style.color=`var(${t})`,document.body.append(e);let n=getComputedStyle(e).color;return e.remove(),n}async function Pl(t,e,n){await er("PUT",t,e,{type:"application/octet-stream",onProgress:n})}function er(t,e,n,{type:s,onProgress:o,signal:i}){return new Promise((r,l)=>{let c=new XMLHttpRequest;c.open(t,e),s&&c.setRequestHeader("Content-Type",s),c.upload.onprogress=({loaded:d,total:f})=>o(f?d/f:1),c.onload=()=>c.status>=200&&c.status<300?r(Nl(c)):(c.status===401&&(Oe.value=!0),l(new qe(c.status,Nl(c)??{title:c.statusText})));let u="Upload failed: the server was not reached or refused the size, or the browser could not read a file.";c.onerror=()=>l(new qe(0,{code:"unreachable",detail:u})),c.onabort=()=>l(i.reason),i?.addEventListener("abort",()=>c.abort()),c.send(n)})}function Nl(t){try{return JSON.parse(t.responseText)}catch{return null}}function en(t=Date.now()){let e=crypto.getRandomValues(new Uint8Array(16));for(let s=0;s<6;s+=1)e[s]=Math.floor(t/2**(8*(5-s)))%256;return e[6]=e[6]&15|112,e[8]=e[8]&63|128,Array.from(e,s=>s.toString(16).padStart(2,"0")).join("").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/,"$1-$2-$3-$4-$5")}var Dl=["image/png","image/jpeg","image/gif","image/webp"],Wm=[["image/png",/^\x89PNG\r\n\x1a\n/],["image/jpeg",/^\xff\xd8\xff/],["image/gif",/^GIF8[79]a/],["image/webp",/^RIFF[^]{4}WEBP/]];async function Fl(t){let e=String.fromCharCode(...new Uint8Array(await t.slice(0,12).arrayBuffer()));return Wm.find(([,n])=>n.test(e))?.[0]??null}function Ks(t){return new Promise((e,n)=>{let s=new FileReader;s.onload=()=>e(s.result.slice(s.result.indexOf(",")+1)),s.onerror=()=>n(s.error),s.readAsDataURL(t)})}var tn=class{items=g([]);problem=g("");async add(e){let n=[];for(let s of e)n.push(await this.#e(s).catch(()=>`${jn(s)} could not be read.`));this.problem.value=n.filter(Boolean).join(" ")}async#e(e){let n=await Fl(e);if(n===null)return`${jn(e)} is not a PNG, JPEG, GIF or WebP image.`;if(e.size>5242880)return`${jn(e)} has ${j(e.size)}; an image can have at most ${j(5242880)}.`;let s=this.items.value;return s.length===20?`${jn(e)} was left out: a message can have ${20} images.`:s.reduce((o,i)=>o+i.file.size,e.size)>20971520?`${jn(e)} was left out: a message can have ${j(20971520)} of images.`:(this.items.value=[...s,{key:en(),name:_(e.name),mediaType:n,file:e}],null)}remove(...e){this.items.value=this.items.peek().filter(({key:n})=>!e.includes(n)),this.problem.value=""}clear(){this.remove(...this.items.value.map(({key:e})=>e))}},jn=({name:t})=>`“${_(t)}”`;async function Gs(t,e){if(e.length===0)return t;let n=t.trim()?[{type:"text",text:t}]:[];for(let{name:s,mediaType:o,file:i}of e){let r=await Ks(i).catch(()=>{throw new Error(`“${s}” can no longer be read. Remove it, or attach it again.`)});n.push({type:"image",media_type:o,data:r})}return n}var tr={from:"",gitUrl:"",gitRef:"",gitDepth:"",gitCredential:"",secrets:[],output:""},Bm=/^[A-Z_][A-Z0-9_]{0,99}$/,qm=0,Ul=()=>({key:qm+=1,name:"",value:""}),Um=({name:t,value:e})=>t.trim()!==""||e!=="",Hn=({secrets:t})=>[...new Set(t.map(({name:e})=>e.trim()).filter(Boolean))];function nr(t,e=[]){return Bm.test(t.trim())?e.includes(t.trim())?"This name is used above.":null:"Use capitals, digits and underscores, as in API_TOKEN."}var sr=t=>t===""?"Enter a value.":null;function zl(t,{secrets:e}){let n=e.find(s=>t===`secrets.${s.name.trim()}`);return n?`secrets.${n.key}.value`:null}function jl({secrets:t},e){let n={};for(let{key:s,name:o,value:i}of t.filter(Um)){let r={name:nr(o,Object.keys(n)),value:sr(i)};for(let[l,c]of Object.entries(r))c&&(e[`secrets.${s}.${l}`]=c);n[o.trim()]=i}return Object.keys(n).length?n:void 0}function Hl(t,e){let{from:n,gitUrl:s,gitRef:o,gitDepth:i,gitCredential:r}=t;if(n!=="git")return;s.trim()||(e.gitUrl="Enter the repository's URL.");let l=i.trim()===""?void 0:Number(i);l!==void 0&&!(Number.isInteger(l)&&l>0)&&(e.gitDepth="Enter a number of commits.");let c=Hn(t).includes(r)?r:void 0;return{git:{url:s.trim(),ref:o.trim()||void 0,depth:l,credential:c}}}function Kl({output:t},e){if(t.trim())try{return{schema:JSON.parse(t)}}catch(n){e.output=`This is not valid JSON: ${n.message}.`;return}}var Vn={model:"",otherModel:"",compaction:"",sandbox:"",network:"",maxSteps:"",maxSeconds:"",maxCost:"",maxTokens:"",approval:"",tools:[],commands:"",timeout:""},Gl={task:"",title:"",systemPrompt:"",...Vn,...tr},zm=t=>Object.entries(Vn).every(([e,n])=>Array.isArray(n)?Array.isArray(t[e]):typeof t[e]==typeof n),Vs=it("new-session",null,zm),Vl=t=>Object.fromEntries(Object.keys(Vn).map(e=>[e,t[e]])),or=({model:t,otherModel:e,...n})=>JSON.stringify(Vl({...n,model:"",otherModel:""}))!==JSON.stringify(Vn),nn="other",Ie=g({...Gl,...Vs.peek()}),at=g(!1),Ft=new tn;function Wt(t){Ie.value={...Ie.value,...t}}function Yl(){Vs.value=Vl(Ie.peek()),Ie.value={...Gl,...Vs.peek()},Ft.clear()}function Jl(){Vs.value=null,Wt(Vn)}function Xl(t){let{model:e}=Ie.peek();e&&e!==nn&&!t.some(({name:n})=>n===e)&&Wt({model:""})}var jm={task:"task",title:"title",model:"model",compaction:"compaction",sandbox:"sandbox","sandbox.network":"network","limits.max_steps":"maxSteps","limits.max_seconds":"maxSeconds","limits.max_cost_usd":"maxCost","limits.max_tokens":"maxTokens",approval:"approval","approval.policy.tools":"tools","approval.policy.commands":"commands","approval.timeout_s":"timeout",system_prompt:"systemPrompt",output:"output",secrets:"secrets",archive:"files","source.git":"gitUrl","source.git.ref":"gitRef","source.git.depth":"gitDepth","source.git.credential":"gitCredential"},Hm={unknown_model:"model",missing_api_key:"model",unknown_tool:"tools",approval_not_allowed:"approval",sandbox_not_allowed:"sandbox",invalid_archive:"files",archive_too_large:"files",workspace_full:"files",invalid_source:"gitUrl",source_not_allowed:"gitUrl",unknown_secret:"gitCredential",secret_key_missing:"secrets",too_many_images:"task",images_too_large:"task",invalid_image_data:"task",image_type_mismatch:"task",image_too_large:"task",session_images_full:"task"};function Ql(t){let e={};t.task.trim()||(e.task="Enter a task.");let n=t.model===nn?t.otherModel.trim():t.model;t.model===nn&&!n&&(e.model="Enter the model name as provider/model.");let s={task:t.task,title:t.title.trim(),model:n,system_prompt:t.systemPrompt.trim()&&t.systemPrompt,sandbox:Km(t),compaction:t.compaction,limits:Gm(t,e),approval:Vm(t,e),output:Kl(t,e),source:Hl(t,e),secrets:jl(t,e)};return{body:ir(s),errors:e}}function ir(t){let e=Object.entries(t).filter(([,n])=>n!==""&&n!==void 0);return e.length?Object.fromEntries(e):void 0}function Km({sandbox:t,network:e}){return!t||!e?t:{kind:t,network:e==="on"}}function Gm(t,e){return ir({max_steps:Gn(t,"maxSteps",e),max_seconds:Gn(t,"maxSeconds",e),max_cost_usd:Gn(t,"maxCost",e),max_tokens:Gn(t,"maxTokens",e)})}function Vm(t,e){let n=Gn(t,"timeout",e),s=t.commands.split(`
`).filter(i=>i.trim()),o={tools:t.tools,commands:s};return ir({policy:t.approval==="some"?o:t.approval,timeout_s:n})}function Gn(t,e,n){let s=t[e].trim().replaceAll(",","");if(s==="")return;if(s.toLowerCase()==="none")return null;let o=Number(s);return Number.isFinite(o)||(n[e]="Enter a number."),o}function Ys(t,e=tr){let n=t.body.errors??[{field:t.body.field??"",message:t.message}],s={},o=[];for(let{field:i,message:r}of n){let l=zl(i,e)??Ym(i)??Hm[t.code];l&&!s[l]?s[l]=r:o.push(l||!i?r:`${i}: ${r}`)}return{errors:s,rest:o}}function Ym(t){let e=t.split(".");for(let n=e.length;n>0;n-=1){let s=jm[e.slice(0,n).join(".")];if(s)return s}return null}var Zl={id:null,request:null,archive:null},Kn=Zl;async function Js(t,e=null,n={}){let s=JSON.stringify(t);(Kn.request!==s||Kn.archive!==e)&&(Kn={id:en(),request:s,archive:e});let o={id:Kn.id,...t},i=e?await er("POST","/v1/sessions",Jm(o,e),n):await H("/v1/sessions",o);return Kn=Zl,i}function Jm(t,e){let n=new FormData;return n.append("session",JSON.stringify(t)),n.append("archive",e,e.name??"folder.tar"),n}var Xs=it("keys",!0,t=>typeof t=="boolean"),Qe=g(null),rr=[{key:"?",label:"Show these shortcuts",run:()=>Qe.value="help"},{key:"Ctrl+K",label:"Go to a session or run an action",run:()=>Qe.value="palette"},{key:"/",label:"Search the list, or the open session",run:Jn},{key:"n",label:"New session",run:Yn},{key:"j",label:"Next session in the list",run:()=>ec(1)},{key:"k",label:"Previous session in the list",run:()=>ec(-1)},{key:"m",label:"Write a message to the open session",run:()=>nc(".composer textarea")},{key:"a",label:"Approve the call (in the list: of the selected session)",run:()=>tc("approve")},{key:"d",label:"Deny the call",run:()=>tc("deny")},{key:"Esc",label:"Close a dialog or menu"}];function Yn(){X.value.page!=="sessions"&&se("#/"),at.value=!0}function Jn(){X.value.page==="session"?Qe.value="search":nc('.filter input[type="search"]')}function nc(t){document.querySelector(t)?.focus()}function ec(t){let e=[...document.querySelectorAll(".session-row .row-name a")],n=e.findIndex(o=>o.closest(".session-row").contains(document.activeElement)),s=n<0?0:Math.min(Math.max(n+t,0),e.length-1);e[s]?.focus()}function tc(t){let{activeElement:e}=document;(e.closest(".approval")??e.closest(".session-row")??(X.value.page==="session"?document:null))?.querySelector(`.approval [data-decision="${t}"]`)?.click()}function ar(t){if(t.defaultPrevented||t.isComposing||Zm(t.target)||Qm())return;let e=rr.find(({key:n,run:s})=>s&&Xm(t,n));e&&(t.preventDefault(),e.run())}function Xm({key:t,ctrlKey:e,metaKey:n,altKey:s},o){let i=o.startsWith("Ctrl+");return s||(e||n)!==i?!1:i?`Ctrl+${t.toUpperCase()}`===o:Xs.value&&t===o}var Qm=()=>document.querySelector("dialog[open]")!==null;function Zm(t){return t instanceof Element?t.matches("input")?!["checkbox","radio","button","file"].includes(t.type):t.isContentEditable||t.matches("textarea, select"):!1}var oc=[["Needs you",lt],["Running",({status:t})=>t==="running"],["Done",t=>t.status==="idle"&&!lt(t)]];function lt({status:t,outcome:e,unseen:n}){return t.startsWith("awaiting_")||t==="idle"&&e==="failed"&&n}function ic(t,e,n){let s=t.findIndex(({id:d})=>d===e.id),o=t[s],i=o?.status==="running"&&e.status==="running",r=o&&(i||o.placed_at>=e.updated_at),l={...e,placed_at:r?o.placed_at:e.updated_at};if(r)return t.with(s,l);let c=o?t.toSpliced(s,1):t,u=c.findIndex(d=>ac(l,d));return u<0?n&&!o&&l.status==="idle"?c:[...c,l]:c.toSpliced(u,0,l)}function rc(t){return[...new Map(t.map(n=>[n.id,{...n,placed_at:n.updated_at}])).values()].sort((n,s)=>ac(n,s)?-1:1)}function ac(t,e){return t.placed_at!==e.placed_at?t.placed_at>e.placed_at:t.id>e.id}function Xn(t,{status:e,q:n}){return(e==="needs_attention"?!lt(t):e&&t.status!==e)?!1:n?[t.title,t.task].some(s=>s&&sc(s).includes(sc(n))):!0}var sc=t=>t.replace(/[A-Z]+/g,e=>e.toLowerCase());var e$=8,t$=120;function lc({onClose:t}){let[e,n]=y(""),s=e.trim(),[o,i]=js(s,n$,t$),r=f=>()=>{t(),f()},l=s$().filter(({label:f})=>f.toLowerCase().includes(s.toLowerCase())),u=[...(o?.items??[]).filter(f=>Xn(f,{q:s})).map(f=>({key:f.id,content:a`<span class="choice-name">${ge(f)}</span> <${Zt} session=${f} />`,choose:r(()=>se(B(f.id)))})),...l.map(({label:f,run:h})=>({key:f,content:f,choose:r(h)}))],d=i?.message??(o?`Nothing matches “${e}”`:"Loading…");return a`<${ee} title="Go to" onClose=${t}>
    <${zs} label="Find a session or an action" text=${e} onText=${n} items=${u} empty=${d} />
  <//>`}function n$(t){return E(`/v1/sessions?${new URLSearchParams({sort:"activity",limit:e$,...t&&{q:t}})}`)}function s$(){let{page:t,id:e}=X.value,n=ot.map(s=>({label:`Show ${s}`,run:()=>se(B(e,s))}));return[{label:"New session",run:Yn},...t==="session"?[{label:"Search this session",run:Jn},...n]:[],{label:"All sessions",run:()=>se("#/")},{label:"Sessions that need you",run:()=>se("#/?status=needs_attention")},{label:"Usage of all sessions",run:()=>se("#/usage")},{label:"Settings",run:()=>se("#/settings")},{label:"Keyboard shortcuts",run:()=>Qe.value="help"},...zn.map(s=>({label:`Theme: ${s}`,run:()=>rt.value=s}))]}var o$=250,i$={user:"You",assistant:"Assistant",tool:"Output",control:"Palimpsest",summary:"Summary"};function cc({id:t,onClose:e}){let[n,s]=y(""),o=n.trim(),[i,r,l]=js(o,()=>r$(t,o),o$),u=(l===o&&i?i.items:[]).map(f=>({key:`${f.seq} ${f.call_id}`,content:a`<span class="dim">${i$[f.role]??f.role}</span> <${a$} hit=${f} />`,choose:()=>{e(),se(B(t,"conversation",{message:f.seq}))}})),d=r?.message??(o&&l===o?`No messages match “${o}”`:"");return a`<${ee} title="Search this session" onClose=${e} wide>
    <${zs} label="Words, paths or “phrases”" text=${n} onText=${s} items=${u} empty=${d} />
  <//>`}async function r$(t,e){return e?E(`${b(t,"search")}?${new URLSearchParams({q:e})}`):{items:[]}}function a$({hit:{snippet:t,ranges:e}}){let n=[...t],s=(r,l)=>_(n.slice(r,l).join("")),o=0,i=e.flatMap(([r,l])=>{let c=s(o,r);return o=l,[c,a`<mark>${s(r,l)}</mark>`]});return a`<span class="snippet">${i}${s(o)}</span>`}function uc(){v(()=>(addEventListener("keydown",ar),()=>removeEventListener("keydown",ar)),[]);let t=()=>Qe.value=null,{page:e,id:n}=X.value;return Qe.value==="help"?a`<${l$} onClose=${t} />`:Qe.value==="palette"?a`<${lc} onClose=${t} />`:Qe.value==="search"&&e==="session"?a`<${cc} id=${n} onClose=${t} />`:null}function l$({onClose:t}){return a`<${ee} title="Keyboard shortcuts" onClose=${t}>
    <dl class="shortcuts">
      ${rr.map(({key:e,label:n})=>a`<div key=${e}>
          <dt>${e.split("+").map(s=>a`<kbd key=${s}>${s}</kbd>`)}</dt>
          <dd>${n}</dd>
        </div>`)}
    </dl>
    <p class="dim">Shortcuts are off while you type in a field. Settings can turn off those without Ctrl.</p>
  <//>`}var c$={system:"◐ System",light:"○ Light",dark:"● Dark"};function dc(){return a`<select
    class="theme"
    aria-label="Theme"
    value=${rt.value}
    onChange=${t=>rt.value=t.currentTarget.value}
  >
    ${zn.map(t=>a`<option key=${t} value=${t}>${c$[t]}</option>`)}
  </select>`}var lr=400,fc=({start_line:t,end_line:e})=>t==null&&e==null?"":` lines ${t??1}–${e??"end"}`,Qn={execute_command:t=>["Run",t.command,t.background?" in the background":""],stop_command:t=>["Stop command",t.command_id],delegate:t=>["Delegate",t.task],write_file:t=>["Write",t.path],edit_file:t=>["Edit",t.path],memory_write:t=>["Write memory",t.content],command_output:t=>["Output of",t.command_id],read_file:t=>["Read",t.path,fc(t)],list_directory:t=>["List",t.path],search_files:t=>["Search",t.pattern,` in ${t.path??"."}${t.glob?`, ${t.glob}`:""}`],recall:t=>["Recall",t.call_id,t.grep?` for ${t.grep}`:fc(t)],history_search:t=>["Search history",t.query],memory_read:()=>["Read memory",""],memory_search:t=>["Search memory",t.query],update_plan:t=>["Plan",t.items?`${t.items.length} items`:""]},pc={execute_command:"terminal",stop_command:"terminal",command_output:"terminal",read_file:"file",write_file:"edit",edit_file:"edit",list_directory:"folder",search_files:"search",update_plan:"plan",recall:"search",history_search:"search",memory_read:"memory",memory_write:"memory",memory_search:"memory"},hc=t=>Object.hasOwn(pc,t)?pc[t]:"tool",mc=Object.keys(Qn);function ve(t){let[,e,n]=/^mcp__(.+?)__(.+)$/s.exec(t)??[];return _(n===void 0?t:`${e} › ${n}`)}function sn({name:t,arguments:e}){let n=d$(e)&&Object.hasOwn(Qn,t)?Qn[t](e):[ve(t),u$(e)],[s,o,i=""]=n.map(r=>_(String(r??"").slice(0,lr)));return{verb:s,argument:o,more:i}}var u$=t=>typeof t=="string"?t:JSON.stringify(t??{}),d$=t=>typeof t=="object"&&t!==null,f$=/"(?:command|path|pattern|query|call_id|task)"\s*:\s*("(?:[^"\\]|\\.)*"?)/;function $c({name:t,written:e}){let n=Object.hasOwn(Qn,t)?Qn[t]({})[0]:ve(t),s=f$.exec(e.slice(0,4*lr));return{verb:n,argument:s?_(p$(s[1]).slice(0,lr)):"",more:""}}function p$(t){let e=t.length>1&&t.endsWith('"')?t:`${t}"`;try{return JSON.parse(e)}catch{return t.slice(1)}}var h$={error:{word:"failed",kind:"bad"},denied:{word:"denied",kind:"warn"},cancelled:{word:"cancelled",kind:"warn"},interrupted:{word:"interrupted",kind:"warn"}};function gc(t,e,n){if(t.open)return{word:"writing",kind:"running"};if(e)return e.exit_code?{word:`exit ${e.exit_code}`,kind:"bad"}:h$[e.status]??{word:e.exit_code===0?"exit 0":"done",kind:"good"};let s=n.approvals.value;if(s.some(({call_id:i})=>i===t.call_id))return{word:"awaiting approval",kind:"waiting"};if(s.length)return{word:"waiting for other approvals",kind:"waiting"};let{status:o}=n.session.value??{};return o==="idle"?{word:"no result",kind:"warn"}:n.clientCalls.value.some(({call_id:i})=>i===t.call_id)?{word:"awaiting client",kind:"waiting"}:o==="awaiting_client"?{word:"waiting for other calls",kind:"waiting"}:{word:"running",kind:"running"}}var ct=g(""),Qs=g(0);Y(()=>{let t=[ct.value,"Palimpsest"].filter(Boolean).join(" · ");document.title=Qs.value?`(${Qs.value}) ${t}`:t});var vc=500,yc=1e4,on=class{#e=vc;#t=null;reset(){this.#e=vc}next(e){let n=(Oe.peek()?yc:this.#e)*(.75+Math.random()/2);return this.#e=Math.min(yc,this.#e*2),Math.max(n,(e?.retryAfterS??0)*1e3)}async wait(e){let n,s,o=()=>document.visibilityState==="visible"&&this.end();addEventListener("online",o),document.addEventListener("visibilitychange",o),await new Promise(i=>{this.#t=i,n=setTimeout(i,e);let r=Oe.peek();s=Y(()=>r&&!Oe.value&&i())}),this.#t=null,clearTimeout(n),s(),removeEventListener("online",o),document.removeEventListener("visibilitychange",o)}end(){this.#t?.()}};var Zs=class{#e;#t="";#n="";#s=[];#o=null;#i=!1;constructor(e){this.#e=e}feed(e){if(e==="")return;this.#i&&e.startsWith(`
`)&&(e=e.slice(1)),this.#i=e.endsWith("\r");let n=(this.#t+e).split(/\r\n|\r|\n/);this.#t=n.pop();for(let s of n)this.#a(s)}#a(e){if(e==="")return this.#r();let n=e.indexOf(":");if(n===0)return;let s=n<0?e:e.slice(0,n),o=n<0?"":e.slice(n+1);o.startsWith(" ")&&(o=o.slice(1)),s==="data"?this.#s.push(o):s==="event"?this.#n=o:s==="id"&&!o.includes("\0")&&(this.#o=o)}#r(){let e={id:this.#o,type:this.#n||"message",data:this.#s.join(`
`)},n=this.#s.length===0;this.#n="",this.#s=[],this.#o=null,n||this.#e(e)}};var m$=4e4,$$=3e4,g$=3e3,rn=class{state=g("connecting");retryAt=g(null);lastId;#e;#t;#n;#s;#o=!1;#i=null;#a=new on;#r=_c();#c=null;#l=()=>{};constructor(e,{after:n=null,onEvents:s,onConnected:o=()=>{},onLost:i=()=>{},staysOpen:r=()=>!1}){this.#e=e,this.lastId=n,this.#t=s,this.onConnected=o,this.#n=i,this.#s=r,document.addEventListener("visibilitychange",this.#d),this.#u()}stop(){this.#o=!0,this.state.value="closed",this.#i?.abort(),this.#a.end(),clearTimeout(this.#c),this.#l(),document.removeEventListener("visibilitychange",this.#d)}reconnect(){this.#i?.abort()}tryNow(){this.#a.end()}#d=()=>{clearTimeout(this.#c),_c()?this.#c=setTimeout(()=>this.#f(),$$):(this.#r=!1,this.#l())};#f(){this.#s()||(this.#r=!0,this.#i?.abort())}async#u(){this.#r&&await this.#h(),await this.#p()}async#p(){for(;!this.#o;){let e=null;try{await this.#m()}catch(n){if(n instanceof qe&&!n.mayPass){this.stop(),this.#n(n);return}e=n}!this.#o&&!this.#r&&await this.#y(e),!this.#o&&this.#r&&await this.#h()}}async#h(){await new Promise(e=>this.#l=e),this.#o||(this.state.value="connecting")}async#m(){this.#i=new AbortController;let e={Accept:"text/event-stream"};this.lastId!==null&&(e["Last-Event-ID"]=String(this.lastId));let n=new Xt(m$,()=>this.#i.abort());try{let s=await be("GET",this.#e,{headers:e,signal:this.#i.signal});this.#a.reset(),this.state.value="live",this.retryAt.value=null,this.onConnected(),await this.#$(s.body,n)}finally{n.stop()}}async#$(e,n){let s=[],o=new Zs(r=>s.push(...v$(r))),i=e.pipeThrough(new TextDecoderStream).getReader();for(;!this.#o;){let{done:r,value:l}=await i.read();if(r)return;if(n.heard(),o.feed(l),s.length===0)continue;let c=s;s=[],this.#g(c)}}#g(e){let n=e.findLast(s=>s.seq!==null);try{this.#t(e)}catch(s){console.error(s)}n&&(this.lastId=n.seq,this.state.value=st()-Date.parse(n.data.at)>g$?"behind":"live",this.state.value==="behind"&&this.#v())}#v(){let e=this.lastId;setTimeout(()=>{this.lastId===e&&this.state.value==="behind"&&(this.state.value="live")},300)}async#y(e){let n=this.#a.next(e);this.state.value="offline",this.retryAt.value=Date.now()+n,await this.#a.wait(n),this.#o||(this.state.value="connecting")}},_c=()=>document.visibilityState==="hidden";function v$({id:t,type:e,data:n}){try{return[{seq:t===null?null:Number(t),type:e,data:JSON.parse(n)}]}catch(s){return console.error(s),[]}}var cr=50,eo=500,y$=80,_$=200,b$=5e3,ur=class{items=g([]);nextCursor=g(null);loading=g(!0);loaded=g(!1);problem=g(null);filter=g({status:"",q:""});staysOpen=()=>!1;follower=g(null);attention=g(new Set);watchers=new Set;#e=new Map;#t=0;#n=new Set;#s=!1;#o=null;#i=[];#a=null;#r=()=>{};open(){this.follower.value=new rn("/v1/events?activity=true",{onEvents:e=>this.#f(e),onConnected:()=>this.load({keep:!0}),onLost:e=>this.problem.value=e,staysOpen:()=>this.staysOpen()}),this.#a=setInterval(()=>this.#_(),b$),this.#r=Y(()=>{let{value:e}=this.follower.value.state;e==="offline"&&!this.loaded.peek()&&Ae(()=>this.load())})}close(){this.follower.value?.stop(),clearInterval(this.#a),this.#r(),this.#n.clear(),this.attention.value=new Set,this.#t+=1}async load({keep:e=!1}={}){let n=e?Math.max(cr,this.items.value.length):cr;this.#o=[],await this.#c(async s=>{let o=E(`/v1/sessions?status=needs_attention&sort=activity&limit=${eo}`),i=this.filter.value.status?{items:[]}:E(this.#d(null,eo,"running")),r=Promise.all([o,i]);r.catch(()=>{});let l=[],c=null;do{let h=await E(this.#d(c,Math.min(eo,n-l.length)));if(!s())return;l.push(...h.items),c=h.next_cursor}while(c!==null&&l.length<n);let[{items:u},{items:d}]=await r;if(!s())return;this.attention.value=new Set(u.map(({id:h})=>h));let f=u.filter(h=>Xn(h,this.filter.value));this.#l(rc([...f,...d,...l]),c)})}async more(){let e=this.nextCursor.value;e===null||this.loading.value||await this.#c(async n=>{let s=await E(this.#d(e,cr));n()&&D(()=>{for(let o of s.items)this.#h(o.id)||this.#$(o,null,!1);this.nextCursor.value=s.next_cursor,this.problem.value=null})})}async#c(e){let n=++this.#t,s=()=>n===this.#t;this.loading.value=!0;try{await e(s)}catch(o){s()&&(this.problem.value=o)}finally{s()&&(this.loading.value=!1,this.#o=null)}}#l(e,n){D(()=>{this.items.value=e;for(let{id:s,status:o}of e)this.#e.set(s,o);this.nextCursor.value=n,this.problem.value=null,this.loaded.value=!0;for(let s of this.#o??[])this.#p(s)})}setFilter({status:e,q:n}){let s=this.filter.value;if(!(e===s.status&&n===s.q))return this.filter.value={status:e,q:n},this.loaded.value=!1,this.load()}#d(e,n,s=this.filter.value.status){let o=new URLSearchParams({limit:n,sort:"activity"}),{q:i}=this.filter.value;return s&&o.set("status",s),i&&o.set("q",i),e&&o.set("cursor",e),`/v1/sessions?${o}`}#f(e){this.#o?.push(...e),this.#i.push(...e)===e.length&&setTimeout(()=>this.#u(),y$)}#u(){let e=this.#i;this.#i=[],D(()=>{for(let n of e)this.#p(n)})}#p({type:e,data:n}){let s=n.session_id;if(e==="session.deleted")return this.removed(s);if(e==="session.activity")return this.#m(s,{activity:n.activity,...n.step===null?{}:{steps:n.step}});if(n.session)this.put(n.session);else if(e==="session.running")this.#e.set(s,"running"),this.#m(s,{status:"running",outcome:null,error:null,activity:null,updated_at:n.at});else if(e==="session.idle"){let{outcome:o,error:i=null}=n;this.#m(s,{status:"idle",outcome:o,error:i,activity:null,unseen:!0,updated_at:n.at})}this.#v(s)}put(e){if(e.kind==="subagent")return;let n=this.#h(e.id);n&&n.last_seq>e.last_seq||this.#$(e,n)}seen(e){this.#g(e,!1),this.#m(e,{unseen:!1})}removed(e){this.#n.delete(e),this.#e.delete(e),this.#g(e,!1),this.items.value=this.items.value.filter(n=>n.id!==e)}#h(e){return this.items.value.find(n=>n.id===e)}#m(e,n){let s=this.#h(e);s&&this.#$({...s,...n},s)}#$(e,n,s=this.nextCursor.value!==null){let o=Xn(e,this.filter.value);this.items.value=o?ic(this.items.value,e,s):this.items.value.filter(({id:r})=>r!==e.id),this.#g(e.id,lt(e));let i=this.#e.get(e.id);if(this.#e.set(e.id,e.status),i!==void 0&&i!==e.status)for(let r of this.watchers)r(e)}#g(e,n){if(this.attention.value.has(e)===n)return;let s=new Set(this.attention.value);n?s.add(e):s.delete(e),this.attention.value=s}#v(e){this.#n.add(e),!this.#s&&(this.#s=!0,setTimeout(()=>this.#y(),_$))}async#y(){for(let e of this.#n){this.#n.delete(e);try{let n=await E(b(e));this.#n.has(e)||this.put(n)}catch(n){n.status===404&&this.removed(e)}}this.#s=!1}async#_(){let e=this.items.value.filter(({status:n})=>n==="running").length;if(!(e===0||document.visibilityState!=="visible"||this.loading.value))try{let{items:n}=await E(this.#d(null,Math.min(eo,e),"running"));D(()=>{for(let s of n)this.#h(s.id)&&!this.#n.has(s.id)&&this.put(s)})}catch{}}},A=new ur;var bc=t=>typeof t=="boolean",ut=it("notifications",!1,bc),to=it("sound",!1,bc),Zn=g(new Set),wc=()=>document.visibilityState==="visible"&&document.hasFocus();async function xc(t){return t&&await globalThis.Notification?.requestPermission()!=="granted"?!1:(ut.value=t,!0)}function kc(){wc()&&Zn.peek().size>0&&(Zn.value=new Set)}addEventListener("focus",kc);document.addEventListener("visibilitychange",kc);Y(()=>{Qs.value=A.attention.value.size+Zn.value.size});A.staysOpen=()=>ut.peek();A.watchers.add(t=>{!(t.status==="idle"?t.outcome!==null:t.status!=="running")||wc()||(t.status==="idle"&&!lt(t)&&(Zn.value=new Set(Zn.peek()).add(t.id)),!(!ut.peek()||globalThis.Notification?.permission!=="granted")&&(w$(t),to.peek()&&k$()))});function w$(t){let e=new Notification(ge(t),{body:x$(t),tag:`palimpsest-${t.id}`});e.onclick=()=>{window.focus(),se(B(t.id)),e.close()}}function x$({status:t,outcome:e,activity:n,error:s}){if(t==="awaiting_approval"){let{verb:o,argument:i}=n?sn(n):{verb:"a call",argument:""};return`Waiting for approval: ${o} ${i}`}return t==="awaiting_client"?"Waiting for a client's result":e==="completed"?"Completed":_([e.replace("_"," "),s?.detail].filter(Boolean).join(": "))}function k$(){let t=new AudioContext,e=t.createOscillator(),n=t.createGain();n.gain.value=.05,e.frequency.value=660,e.connect(n).connect(t.destination),e.onended=()=>t.close(),e.start(),e.stop(t.currentTime+.15)}var ts="palimpsest.logged-in",es=g(Mc());addEventListener("storage",({key:t,newValue:e})=>{if(t!==ts&&t!==null)return;let n=es.value;es.value=Mc(),es.value&&e!==null?Oe.value=!1:n&&t===ts&&location.reload()});function Sc(){return a`<main class="page login">
    <h1>Palimpsest</h1>
    <${Cc} about="Enter an API key to sign in." />
  </main>`}function Ec(){let t=w(null);return M(()=>{let s=t.current;return s.showModal(),()=>s.close()},[]),a`<dialog ref=${t} class="login" aria-label="Sign in" onCancel=${s=>s.preventDefault()} onClose=${()=>t.current?.showModal()}>
    <div class="dialog-body">
      <header><h2>Sign in</h2></header>
      <${Cc} about="You have been signed out. Enter an API key to sign in." />
    </div>
  </dialog>`}function Cc({about:t}){let[e,n]=y(null),[s,o]=y(!1),i=w(null);v(()=>i.current.focus(),[]);async function r(l){l.preventDefault();let c=i.current.value.trim();if(!s){n(null),o(!0);try{await S$(c)}catch(u){n(u),o(!1),i.current.select()}}}return a`<form class="field" onSubmit=${r}>
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
    ${e&&a`<p class="failure" role="alert">${e.message}</p>`}
  </form>`}function Oc(){return es.value?a`<${C} kind="plain" onClick=${E$}>Sign out<//>`:null}async function S$(t){await H("/v1/login",{key:t}),Tc(!0),Oe.value=!1}async function E$(){await we("/v1/login"),Tc(!1),location.reload()}function Tc(t){es.value=t;try{t?localStorage.setItem(ts,String(Date.now())):localStorage.removeItem(ts)}catch{}}function Mc(){try{return localStorage.getItem(ts)!==null}catch{return!1}}var Ac=128;function no({attachments:t,isBrief:e=!1}){let n=L(),s=w(null),o=({currentTarget:i})=>{let r=[...i.files];i.value="",t.add(r)};return a`<label class="hidden" for=${n}>Images to attach</label>
    <input ref=${s} id=${n} type="file" accept=${Dl.join()} multiple hidden onChange=${o} />
    <button
      type="button"
      class="attach"
      title=${e?"Attach images":void 0}
      onClick=${()=>s.current.click()}
    >
      ${e?a`<${Xe} name="attach" /><span class="hidden">Attach images</span>`:"Attach images"}
    </button>`}function so({attachments:t}){let e=t.items.value,n=t.problem.value,s=w(null),o=i=>{t.remove(e[i].key),requestAnimationFrame(()=>{let r=s.current?.querySelectorAll("button")??[];(r[Math.min(i,r.length-1)]??s.current?.parentElement.querySelector(".attach"))?.focus()})};return a`<ul class="attached" aria-label="Attached images" ref=${s} hidden=${e.length===0}>
      ${e.map(({key:i,name:r,file:l},c)=>a`<li key=${i}>
          <${C$} name=${r} file=${l} />
          <span class="attached-name">${r} <span class="dim numbers">${j(l.size)}</span></span>
          <button type="button" class="plain" aria-label=${`Remove ${r}`} onClick=${()=>o(c)}>×</button>
        </li>`)}
    </ul>
    ${n&&a`<p class="field-error" role="alert">${n}</p>`}`}function C$({name:t,file:e}){let n=w(null);return v(()=>{O$(n.current,e).catch(()=>{})},[e]),a`<canvas ref=${n} width="0" height="0" role="img" aria-label=${t}></canvas>`}async function O$(t,e){let n=await createImageBitmap(e),s=Math.min(1,Ac/n.height,2*Ac/n.width);t.width=Math.max(1,Math.round(n.width*s)),t.height=Math.max(1,Math.round(n.height*s)),t.getContext("2d").drawImage(n,0,0,t.width,t.height),n.close()}var Rc=({dataTransfer:t})=>t?.types.includes("Files");function oo(t){return e=>{let{files:n,types:s}=e.clipboardData;n.length===0||s.includes("text/plain")||(e.preventDefault(),t.add([...n]))}}function io(t){let[e,n]=y(!1);return{isOver:e,onDragOver:s=>{Rc(s)&&(s.preventDefault(),n(!0))},onDragLeave:({currentTarget:s,relatedTarget:o})=>s.contains(o)||n(!1),onDrop:s=>{Rc(s)&&(s.preventDefault(),n(!1),t(s))}}}var T$={connecting:"Connecting…",behind:"Catching up…",offline:"Offline"};function ro({follower:t}){let e=t?t.state.value:"connecting",n=t&&t.retryAt.value!==null&&e!=="closed";return a`<span class="connection ${n?"offline":e}">
    <span role="status">${T$[e]??""}</span>
    ${n&&a`<${M$} follower=${t} isTrying=${e!=="offline"} />`}
  </span>`}function M$({follower:t,isTrying:e}){let n=A$(t.retryAt.value);return a`${!e&&a`<span class="dim numbers">retrying in ${n} s</span>`}
    <button type="button" aria-disabled=${e} onClick=${()=>t.tryNow()}>Retry now</button>`}function A$(t){let e=()=>Math.max(0,Math.ceil((t-Date.now())/1e3)),[n,s]=y(e);return v(()=>{s(e());let o=setInterval(()=>s(e()),500);return()=>clearInterval(o)},[t]),n}var po={exports:{}};function Fc(t){return Array.isArray(t)?t:[t]}var an=void 0,je="",cn=" ",me="\\",R$=/[.*+?()[\]{}^$|\\/]/,Wc="\uFEFF",L$=/^\/\*{2,}$/,I$=/^\\!/,N$=/^\\#/,P$=/\r?\n/g,D$="//",ln=47,Lc=46,Me="/",Bc="node-ignore";typeof Symbol<"u"&&(Bc=Symbol.for("node-ignore"));var qc=Bc,Bt=(t,e,n)=>(Object.defineProperty(t,e,{value:n}),n),Uc=()=>!1,Ic={alnum:"0-9A-Za-z",alpha:"A-Za-z",blank:" \\t",cntrl:"\\x00-\\x1f\\x7f",digit:"0-9",graph:"!-.0-~",lower:"a-z",print:" -.0-~",punct:"!-.:-@\\[-`{-~",space:" \\t\\n\\r",upper:"A-Z",xdigit:"0-9A-Fa-f"},F$="\\]^-[",ao=t=>F$.indexOf(t)<0?t:me+t,W$="(?!\\/)",B$=(t,e)=>{if(t)return`[^\\/${e}]`;let n=`[${e}]`;return new RegExp(n).test("/")?W$+n:n},q$=(t,e)=>{let{length:n}=t,s=e+1,o=je,i=t[s];(i==="!"||i==="^")&&(o="^",s++);let r=je,l=je;for(;;){let c=t[s];if(c===an)return null;if(c===me){let u=t[++s];r+=ao(u),l=u}else if(c==="-"&&l&&s+1<n&&t[s+1]!=="]"){s++;let u=t[s];u===me&&(u=t[s+=1]),l<=u&&(r+=`-${ao(u)}`),l=je}else if(c==="["&&t[s+1]===":"){let u=s+2,d=u;for(;d<n&&t[d]!=="]";)d++;if(d===n)return null;if(d>u&&t[d-1]===":"){let f=t.slice(u,d-1);if(!Object.prototype.hasOwnProperty.call(Ic,f))return null;r+=Ic[f],l=je,s=d}else r+=ao("["),l="[",s=u-2}else r+=ao(c),l=c;if(s++,t[s]==="]")return{end:s,source:B$(o,r)}}},dr="[]",ss="\0",U$=new RegExp(`${ss}(\\d+)${ss}`,"g"),uo="",fo="",Nc=t=>t===ss||t===uo||t===fo,z$=t=>{let e=[],n=r=>`${ss}${e.push(r)-1}${ss}`,{length:s}=t,o=je,i=0;for(;i<s;){let r=t[i];if(r===me){let l=t[i+1];l===Me&&i+2===s?o+=n(dr):l==="*"||l==="["||l===cn?o+=t.slice(i,i+2):o+=n(R$.test(l)?me+l:Nc(l)?`[${l}]`:l),i+=2}else if(Nc(r))o+=n(`[${r}]`),i++;else if(r==="["){let l=q$(t,i);l===null?(o+=n(dr),i=s):(o+=n(l.source),i=l.end+1)}else o+=r,i++}return{source:o,sources:e}},fr=null,j$=/\/(?!$)/,ns="[^\\/]*",H$=[[/(\\+)( ?)/g,(t,e,n)=>n?e.slice(0,e.length-e.length%2)+cn:e,me+cn],[/(^|\/)\*{3,}(?=\/|$)/g,(t,e)=>`${e}**`,"*"],[/[\\$.|*+(){^]/g,t=>`\\${t}`],[/(?!\\)\?/g,()=>"[^/]","?"],[/^\//,()=>"^",Me],[/\//g,()=>"\\/",Me],[/^\^*(?:\\\*\\\*\\\/)+/,()=>"(?:^|\\/)","*"],[fr,(t,e)=>!t||t[0]==="^"||t[0]==="("?t:(j$.test(e)?"^":"(?:^|\\/)")+t],[/\\\/\\\*\\\*(?=\\\/|$)/g,(t,e,n)=>e+6<n.length?n.slice(e+6)==="\\/"?"(?:\\/[^\\/]+)+":"(?:\\/[^\\/]+)*":`\\/${fo}`,"*"],[/(^|[^\\])(?:\\\*)+(?!$)/g,(t,e)=>e+ns,"*"],[/(^|[^\\])((?:\\\\)*)\\\*$/,(t,e,n)=>n===je?e+uo:t,"*"],[/\\\\\\(?=[$.|*+(){^])/g,()=>me,me+me],[/\\\\/g,()=>me,me+me],[/\\\[([^\]/]*?)($|\])/g,(t,e,n)=>`\\[${e}${n}`,"["],[fr,t=>{let e=t[t.length-1];return!e||e===uo||e===fo?t:e===Me?`${t}$`:`${t}(?=$|\\/$)`}]],K$=/(^|\\\/)?\uE000$/,lo="regex",Pc="checkRegex",Dc="_",G$=(t,e)=>`${e?`${e}[^/]+`:"[^/]*"}(?=$|\\/$)`,V$=/\uE001$/,Y$=()=>"[\\s\\S]",J$=(t,e)=>{let n=je;for(let s=e+1;s<t.length&&!t[s].wildcard;s++)n+=t[s].single;return n},X$=t=>{if(t.indexOf(ns)<0)return t;let e=[],{length:n}=t,s=0;for(;s<n;){let l=t[s];if(t.startsWith(ns,s))e.push({wildcard:!0}),s+=ns.length;else if(l==="["){let c=s+1;for(t[c]==="^"&&c++,t[c]==="]"&&c++;c<n&&t[c]!=="]";)c+=t[c]===me?2:1;c++,e.push({single:t.slice(s,c)}),s=c}else if(l===me)e.push({single:t.slice(s,s+2)}),s+=2;else if(l==="("){let c=0,u=s;do t[u]===me?u++:t[u]==="("?c++:t[u]===")"&&c--,u++;while(u<n&&c>0);"*+?".indexOf(t[u])>=0&&u++,e.push({boundary:t.slice(s,u)}),s=u}else l==="^"||l==="$"?(e.push({boundary:l}),s++):(e.push({single:l}),s++)}let o=je,i=[],r=()=>{let l;i.forEach((c,u)=>{c.wildcard&&(l=u)}),i.forEach((c,u)=>{if(!c.wildcard){o+=c.single;return}o+=u===l?ns:`(?:(?!${J$(i,u)})[^\\/])*`}),i=[]};return e.forEach(l=>{if(l.boundary===void 0){i.push(l);return}r(),o+=l.boundary}),r(),o},zc=t=>{L$.test(t)&&(t="**");let{source:e,sources:n}=z$(t),s=H$.reduce((o,[i,r,l])=>i===fr?r(o,t):l!==an&&o.indexOf(l)<0?o:i.test(o)?o.replace(i,r.bind(t)):o,e);return n.length?s.replace(U$,(o,i)=>n[i]):s},Q$=(t,e)=>{t[t.length-1]===Me&&(e=zc(t.slice(0,-1)));let n=e.slice(0,-1),s=e[e.length-1];return s===uo?`${n}$`:s===fo?n:dr},jc=t=>{let e=t.indexOf(Me);return e<0||e===t.length-1},Z$=t=>{let e=t.length-1,n=t.lastIndexOf(Me,t[e]===Me?e-1:e);return n<0?t:t.slice(n+1)},eg=t=>{if(t.charCodeAt(0)===ln||t.indexOf(D$)>=0){let s=t.split(Me).filter(Boolean);return s.pop(),s.length?s.join(Me)+Me:je}let e=t.length-1,n=t.lastIndexOf(Me,t.charCodeAt(e)===ln?e-1:e);return n<0?je:t.slice(0,n+1)},os=t=>typeof t=="string",tg=t=>t&&os(t),ng=t=>(t[t.length-1]==="\r"?t.slice(0,-1):t).split(P$).filter(Boolean),pr=class{constructor(e,n,s,o,i,r){this.pattern=e,this.mark=n,this.negative=i,Bt(this,"body",s),Bt(this,"ignoreCase",o),Bt(this,"regexPrefix",r)}get _basenameOnly(){return Bt(this,"_basenameOnly",jc(this.body))}get regex(){let e=Dc+lo;return this[e]?this[e]:this._make(lo,e)}get checkRegex(){let e=Dc+Pc;return this[e]?this[e]:this._make(Pc,e)}_make(e,n){let s=X$(e===lo?this.regexPrefix.replace(K$,G$).replace(V$,Y$):Q$(this.body,this.regexPrefix)),o=this.ignoreCase?new RegExp(s,"i"):new RegExp(s);return Bt(this,n,o)}},sg=t=>{let e=0;for(;t[t.length-e-1]===me;)e++;return e%2===1},og=(t,e)=>{let n=t.length,s;for(;;){for(e&&t[n-1]==="\r"&&n--,s=n;t[s-1]===cn;)s--;if(!e||t[s-1]!==`
`)break;n=s-1}if(s===n)return t.slice(0,n);let o=0;for(;t[s-o-1]===me;)o++;return o%2?t.slice(0,s-1)+cn:t.slice(0,s)},ig=(t,e,n,s,o)=>{let i=o&&t[0]===Wc?t.slice(1):t;if(i[0]==="#")return;let r=!1;i[0]==="!"&&(r=!0,i=i.slice(1));let l=i[i.length-1];if((l===cn||s&&(l==="\r"||l===`
`))&&(i=og(i,s)),!i||sg(i))return;i=i.replace(I$,"!").replace(N$,"#");let c=zc(i);return new pr(t,e,i,n,r,c)},hr=class{constructor(e){this._ignoreCase=e,this._rules=[],this._basenameCount=0}_add(e,n){if(e&&e[qc]){this._rules=this._rules.concat(e._rules._rules),this._basenameCount+=e._rules._basenameCount,this._added=!0;return}let s=os(e),o=s?e:e.pattern,i=tg(o)&&ig(o,s?an:e.mark,this._ignoreCase,!this._split,this._stripBOM&&!n);i&&(this._added=!0,this._rules.push(i),jc(i.body)&&this._basenameCount++)}add(e){return this._added=!1,this._split=os(e),this._stripBOM=!this._split||e[0]===Wc,Fc(this._split?ng(e):e).forEach(this._add,this),this._added&&(this._literalRules=an),this._added}testLiteral(e){let n=this._literalRules||(this._literalRules=this._rules.filter(({body:l})=>l[l.length-(l[l.length-1]===Me?2:1)]==="*")),s=!1,o=!1,i;for(let l=n.length-1;l>=0;l--){let c=n[l];if(c.checkRegex.test(e)){s=!c.negative,o=c.negative,i=c.negative?an:c;break}}let r={ignored:s,unignored:o};return i&&(r.rule=i),r}test(e,n){let s=this._rules,{length:o}=s,i=this._basenameCount*2>=o,r=i?Z$(e):e;for(let l=o-1;l>=0;l--){let c=s[l];if(c[n].test(i&&c._basenameOnly?r:e)){let{negative:u}=c,d={ignored:!u,unignored:u};return u||(d.rule=c),d}}return{ignored:!1,unignored:!1}}},rg=(t,e)=>{throw new e(t)},wt=(t,e,n)=>os(t)?t?wt.isNotRelative(t)?n(`path should be a \`path.relative()\`d string, but got "${e}"`,RangeError):!0:n("path must not be empty",TypeError):n(`path must be a string, but got \`${e}\``,TypeError),Hc=t=>{let e=t.charCodeAt(0);if(e===ln)return!0;if(e!==Lc)return!1;if(t.length===1)return!0;let n=t.charCodeAt(1);return n===ln?!0:n!==Lc?!1:t.length===2||t.charCodeAt(2)===ln};wt.isNotRelative=Hc;wt.convert=t=>t;var co=t=>os(t)&&wt.convert(t),mr=class{constructor({ignorecase:e=!0,ignoreCase:n=e,allowRelativePaths:s=!1}={}){Bt(this,qc,!0),this._rules=new hr(n),this._strictPathCheck=!s,this._initCache()}_initCache(){this._ignoreCache=Object.create(null),this._testCache=Object.create(null)}add(e){return this._rules.add(e)&&this._initCache(),this}addPattern(e){return this.add(e)}_test(e,n,s){return wt(s,e,this._strictPathCheck?rg:Uc),s?this._t(s,n):{ignored:!1,unignored:!1}}checkIgnore(e){let n=co(e);if(!n||n.charCodeAt(n.length-1)!==ln)return this._test(e,this._testCache,n);let s=this._t(n,this._testCache);if(s.ignored)return s;let o=this._rules.testLiteral(n);return o.ignored||o.unignored?o:s}_t(e,n){if(e in n)return n[e];let s=eg(e),o=s?this._t(s,n):an;return n[e]=o&&o.ignored?o:this._rules.test(e,lo)}ignores(e){return this._test(e,this._ignoreCache,co(e)).ignored}createFilter(){return e=>!this.ignores(e)}filter(e){return Fc(e).filter(this.createFilter())}test(e){return this._test(e,this._testCache,co(e))}},$r=t=>new mr(t),ag=t=>wt(co(t),t,Uc),Kc=()=>{let t=n=>/^\\\\\?\\/.test(n)||/["<>|\u0000-\u001F]+/u.test(n)?n:n.replace(/\\/g,"/");wt.convert=t;let e=/^[a-z]:\//i;wt.isNotRelative=n=>e.test(n)||Hc(n)};typeof process<"u"&&process.platform==="win32"&&Kc();po.exports=$r;$r.default=$r;po.exports.isPathValid=ag;Bt(po.exports,Symbol.for("setupWindows"),Kc);var Gc=po.exports;var lg=[".git","node_modules",".venv","__pycache__"],cg=".gitignore";function Vc(t){return[...t.items].filter(({kind:n})=>n==="file").map(n=>{let s=n.webkitGetAsEntry?.();return s?Yc(s):ug(n.getAsFile())})}var ug=t=>({name:t.name,file:async()=>t});function Yc(t){return t.isDirectory?{name:t.name,list:()=>dg(t.createReader())}:{name:t.name,file:()=>new Promise((...e)=>t.file(...e))}}async function dg(t){let e=[];for(;;){let n=await new Promise((...s)=>t.readEntries(...s));if(n.length===0)return e.map(Yc);e.push(...n)}}function Jc(t){let[e]=t[0].webkitRelativePath.split("/"),n=new Map;for(let s of t){let o=s.webkitRelativePath.split("/").slice(1),i=n;for(let r of o.slice(0,-1))i.has(r)||i.set(r,new Map),i=i.get(r);i.set(o.at(-1),s)}return{name:e,list:async()=>Xc(n)}}function Xc(t){return[...t].map(([e,n])=>n instanceof Map?{name:e,list:async()=>Xc(n)}:{name:e,file:async()=>n})}async function*gr(t,e,n="",s=[]){let o=await t.list(),i=o.find(({name:u,file:d})=>d&&u===cg),r=i?[...s,{above:n,matcher:await fg(i)}]:s,l=o.filter(({name:u,list:d})=>{let f=`${n}${u}${d?"/":""}`,h=lg.includes(u)?"never":pg(f,r)?"ignored":null;return h&&e(f,h),h===null}),c=async({name:u,file:d})=>{try{return{path:n+u,file:await d()}}catch{return e(n+u,"unreadable"),null}};yield(await Promise.all(l.filter(({file:u})=>u).map(c))).filter(Boolean);for(let u of l)u.list&&(yield*gr(u,e,`${n}${u.name}/`,r))}async function fg(t){let e=await(await t.file()).text();return Gc({ignorecase:!1}).add(e)}function pg(t,e){for(let{above:n,matcher:s}of e.toReversed()){let{ignored:o,unignored:i}=s.test(t.slice(n.length));if(o||i)return o}return!1}var hg=/^[\u0020-\u007e]*$/,vr=new TextEncoder;function Zc(t){let e=t.flatMap(({path:n,file:s,mode:o})=>[...mg(n,s,o),s,new Uint8Array(eu(s.size))]);return new Blob([...e,new Uint8Array(2*512)],{type:"application/x-tar"})}var eu=t=>(512-t%512)%512;function mg(t,{size:e,lastModified:n},s){let o=$g(t),i={...!o&&{path:t},...e>=8589934592&&{size:e}},r=Math.max(0,Math.floor(n/1e3)),l=Qc({...o??{name:"file",prefix:""},size:e%8589934592,mode:s,time:r,type:"0"});if(Object.keys(i).length===0)return[l];let c=vr.encode(Object.entries(i).map(([d,f])=>gg(d,f)).join(""));return[Qc({name:"pax",prefix:"",size:c.length,mode:420,time:r,type:"x"}),c,new Uint8Array(eu(c.length)),l]}function $g(t){if(!hg.test(t))return null;if(t.length<=100)return{name:t,prefix:""};let e=t.indexOf("/",t.length-100-1);return e<1||e>155||e===t.length-1?null:{name:t.slice(e+1),prefix:t.slice(0,e)}}function gg(t,e){let n=` ${t}=${e}
`,s=vr.encode(n).length,o=s+1;for(;String(o).length+s!==o;)o=String(o).length+s;return`${o}${n}`}function Qc({name:t,prefix:e,size:n,mode:s,time:o,type:i}){let r=new Uint8Array(512),l=(u,d)=>r.set(vr.encode(u),d),c=(u,d)=>`${u.toString(8).padStart(d,"0")}\0`;return l(t,0),l(c(s,7),100),l(c(0,7),108),l(c(0,7),116),l(c(n,11),124),l(c(o,11),136),l("        ",148),l(i,156),l("ustar\x0000",257),l(e,345),l(`${c(r.reduce((u,d)=>u+d),6)} `,148),r}var vg=/\.(tar|tar\.gz|tgz|tar\.zst|tzst|zip)$/i,tu=32,yg=[35,33],xe=g(null),mo=0;function $o(){mo+=1,xe.value=null}function nu(t){let e=Vc(t);if(e.length===0)return;let[n]=e;return e.length>1?ho({name:`${e.length} items`,list:async()=>e}):n.list?ho(n):vg.test(n.name)?ou(n.name,"archive",async()=>yr(await n.file())):ho({name:n.name,list:async()=>e})}function yr(t){mo+=1,xe.value={status:"ready",name:t.name,kind:"archive",bytes:t.size,left:[],archive:t}}var su=t=>ho(Jc(t));function ho(t){return ou(t.name,"folder",async e=>{let n=[],s=[],o=0;for await(let r of gr(t,(l,c)=>s.push({path:l,why:c}))){if(!e())return;let l=await _g(r,s);n.push(...l),o+=l.reduce((c,{file:u})=>c+u.size,0),xe.value={...xe.value,files:n.length,bytes:o}}if(!e())return;let i={status:"ready",files:n.length,bytes:o,left:s,archive:Zc(n)};xe.value={...xe.value,...i}})}async function ou(t,e,n){let s=mo+=1,o=()=>s===mo;xe.value={status:"reading",name:t,kind:e,files:0,bytes:0,left:[],archive:null};try{await n(o)}catch(i){if(!o())return;xe.value={...xe.value,status:"failed",problem:`“${t}” could not be read (${i.message}).`}}}async function _g(t,e){let n=[];for(let s=0;s<t.length;s+=tu){let o=t.slice(s,s+tu),i=await Promise.all(o.map(({file:r})=>r.slice(0,2).arrayBuffer().catch(()=>null)));o.forEach(({path:r,file:l},c)=>{i[c]===null?e.push({path:r,why:"unreadable"}):n.push({path:r,file:l,mode:bg(new Uint8Array(i[c]))?493:420})})}return n}var bg=t=>yg.every((e,n)=>t[n]===e);var Se=g(null);async function un(){Se.value=(await E("/v1/models")).items}var xt=({provider:t})=>t==="scripted",is=()=>Se.value?.find(t=>t.default)??null;var G=It({values:{},change:()=>{},errors:{}});function rs({name:t,label:e,help:n,control:s}){let o=L(),i=z(G).errors[t],r=[i&&`${o}-error`,n&&`${o}-help`].filter(Boolean).join(" ");return a`<div class="field">
    <label for=${o}>${e}</label>
    ${s({id:o,"aria-describedby":r||void 0,"aria-invalid":i?"true":void 0})}
    ${i&&a`<p class="field-error" id="${o}-error">${i}</p>`}
    ${n&&a`<p class="help" id="${o}-help">${n}</p>`}
  </div>`}function ye({name:t,label:e,help:n,...s}){let{values:o,change:i}=z(G),r=c=>i({[t]:c.currentTarget.value});return a`<${rs} name=${t} label=${e} help=${n} control=${c=>a`<input type="text" value=${o[t]} onInput=${r} ...${c} ...${s} />`} />`}function dt({name:t,label:e,help:n,...s}){let{values:o,change:i}=z(G),r=c=>i({[t]:c.currentTarget.value});return a`<${rs} name=${t} label=${e} help=${n} control=${c=>a`<textarea value=${o[t]} onInput=${r} ...${c} ...${s}></textarea>`} />`}function Ne({name:t,label:e,help:n,children:s,...o}){let{values:i,change:r}=z(G),l=u=>r({[t]:u.currentTarget.value});return a`<${rs} name=${t} label=${e} help=${n} control=${u=>a`<select value=${i[t]} onChange=${l} ...${u} ...${o}>${s}</select>`} />`}function Pe(t){return a`<${ye} inputmode="decimal" autocomplete="off" placeholder="server default" ...${t} />`}var wg={"":"Uses the server's setting",never:"Tools run without approval",always:"Every tool call waits for your approval",some:"The calls below wait for your approval; all others run"};function go({byDefault:t,timeout:e="no time limit"}){let{values:n}=z(G);return a`<fieldset>
    <legend>Approval</legend>
    <div class="fields">
      <${Ne} name="approval" label="Calls that need approval" help=${wg[n.approval]}>
        ${t&&a`<option value="">${t}</option>`}
        <option value="never">None</option>
        <option value="always">All</option>
        <option value="some">Some tools and commands</option>
      <//>
      <${Pe} name="timeout" label="Auto-deny after (seconds)" placeholder=${e} />
    </div>
    ${n.approval==="some"&&a`<${xg} /><${kg} />`}
  </fieldset>`}function xg(){let{values:t,change:e,errors:n}=z(G),s=(o,i)=>{let r=t.tools.filter(l=>l!==o);e({tools:i?[...r,o]:r})};return a`<div class="checks" role="group" aria-label="Tools that need approval">
    ${mc.map(o=>a`<label key=${o}>
        <input
          type="checkbox"
          checked=${t.tools.includes(o)}
          onChange=${i=>s(o,i.currentTarget.checked)}
        />
        <code>${o}</code>
      </label>`)}
    ${n.tools&&a`<p class="field-error">${n.tools}</p>`}
  </div>`}function kg(){return a`<${dt}
    name="commands"
    label="Commands that need approval"
    help=${"Regular expressions, one per line. A command that matches any of them needs approval."}
    rows="3"
    class="mono"
    spellcheck="false"
    placeholder=${`\\brm\\b
\\bgit push\\b`}
  />`}var Sg={"":"Uses the server's setting",reactive:"Waits until the context is full, then summarizes all but the newest work",threshold:"Summarizes early, at 80% of the usable context, and keeps the last ten messages",handoff:"Summarizes at 200,000 tokens and continues with only the summary and the last request"};function iu(){return a`<div class="create-more">
    <${ye} name="title" label="Title" placeholder="first line of the task" maxlength="300" />
    <${Cg} />
    <${Og} />
    <${Tg} />
    <${go} byDefault="Server default" timeout="300, or the server default; “none” for no limit" />
    <${dt} name="systemPrompt" label="System prompt" rows="3" placeholder="server default" />
    <${Eg} />
  </div>`}function Eg(){return a`<${dt}
    name="output"
    label="Output (JSON Schema)"
    help=${"A JSON Schema. The run completes only with a value that matches it, which is the session's output."}
    rows="4"
    class="mono"
    spellcheck=${!1}
    autocapitalize="none"
    placeholder=${'{"type": "object", "properties": {"passed": {"type": "boolean"}}, "required": ["passed"]}'}
  />`}function Cg(){let{values:t}=z(G);return a`<${Ne} name="compaction" label="Compaction" help=${Sg[t.compaction]}>
    <option value="">Server default</option>
    <option value="reactive">Reactive</option>
    <option value="threshold">Threshold</option>
    <option value="handoff">Handoff</option>
  <//>`}function Og(){let{values:t}=z(G),e=t.sandbox?void 0:"Choose a sandbox to set its network";return a`<fieldset>
    <legend>Sandbox</legend>
    <div class="fields">
      <${Ne} name="sandbox" label="Kind">
        <option value="">Server default</option>
        <option value="docker">Docker</option>
        <option value="bubblewrap">Bubblewrap</option>
      <//>
      <${Ne} name="network" label="Network" help=${e} disabled=${!t.sandbox}>
        <option value="">Server default</option>
        <option value="on">On</option>
        <option value="off">Off</option>
      <//>
    </div>
  </fieldset>`}function Tg(){return a`<fieldset>
    <legend>Limits</legend>
    <p class="help">A run stops at a limit and can be resumed. Enter “none” to remove a limit set by the server.</p>
    <div class="fields">
      <${Pe} name="maxSteps" label="Max steps per run" />
      <${Pe} name="maxSeconds" label="Max seconds per run" />
      <${Pe} name="maxCost" label="Max total cost ($)" />
      <${Pe} name="maxTokens" label="Max total tokens" />
    </div>
  </fieldset>`}function lu(){let{values:t}=z(G),e=is();return a`<${Ne} name="model" label="Model" help=${Lg(t.model)}>
      <option value="">Server default${e?`: ${e.name}`:""}</option>
      ${Mg(Se.value??[]).map(([n,s])=>a`<optgroup key=${n} label=${Ag(n,s)}>
          ${s.map(o=>a`<option key=${o.name} value=${o.name}>${Rg(o)}</option>`)}
        </optgroup>`)}
      <option value=${nn}>Other…</option>
    <//>
    ${t.model===nn&&a`<${ye}
      name="otherModel"
      label="Model name"
      placeholder="provider/model"
      autocapitalize="none"
    />`}`}var ru=t=>xt(t)?1:t.key_present?0:2;function Mg(t){let e=new Map,n=t.toSorted((s,o)=>ru(s)-ru(o));for(let s of n)e.set(s.provider,[...e.get(s.provider)??[],s]);return[...e]}var Ag=(t,e)=>e[0].key_present?t:`${t} (no key)`;function Rg(t){return xt(t)?`${t.name} (scripted demo; no real model)`:t.key_present?t.name:`${t.name} (no key)`}function Lg(t){let e=t===""?is():Se.value?.find(s=>s.name===t);return e?xt(e)?e.description:[e.description,`${oe(e.context_window)} tokens${e.window_source==="assumed"?" (assumed)":""}`,Ig(e.prices),e.key_present?"":Ng(e.provider)].filter(Boolean).join(" · "):void 0}function Ig({input:t,output:e}){return t===null||e===null?"price unknown":`$${t} in, $${e} out per million tokens`}var au={openai:"OPENAI_API_KEY",anthropic:"ANTHROPIC_API_KEY"};function Ng(t){return au[t]?`needs ${au[t]} on the server`:"no key set on the server"}function cu(){let{values:t,change:e,errors:n}=z(G),{secrets:s}=t,o=w(null),i=w(s.length);M(()=>{let c=s.length>i.current,u=s.length<i.current;i.current=s.length,c?o.current.querySelector(".secret-row:last-of-type input").focus():u&&o.current.querySelector("button.add").focus()},[s.length]);let r=(c,u)=>e({secrets:s.map(d=>d.key===c?{...d,...u}:d)}),l=c=>e({secrets:s.filter(u=>u.key!==c)});return a`<div class="secrets" ref=${o}>
    <p class="help">
      Commands get them as environment variables. The server stores them encrypted, and replaces their values with${" "}
      <code>[secret NAME]</code> in what commands print.
    </p>
    ${s.map(({key:c,...u})=>a`<${G.Provider}
        key=${c}
        value=${{values:u,change:d=>r(c,d),errors:{name:n[`secrets.${c}.name`],value:n[`secrets.${c}.value`]}}}
      >
        <div class="secret-row" role="group" aria-label=${`Secret ${u.name}`}>
          <${_r} />
          <${br} />
          <button type="button" aria-label=${`Remove secret ${u.name}`} onClick=${()=>l(c)}>Remove</button>
        </div>
      <//>`)}
    ${n.secrets&&a`<p class="field-error" role="alert">${n.secrets}</p>`}
    <button type="button" class="add" onClick=${()=>e({secrets:[...s,Ul()]})}>Add secret</button>
  </div>`}function _r(){return a`<${ye}
    name="name"
    label="Name"
    placeholder="API_TOKEN"
    autocomplete="off"
    autocapitalize="characters"
    spellcheck=${!1}
    maxlength="100"
  />`}function br(){let{values:t,change:e}=z(G),n=i=>e({value:i.currentTarget.value}),s=i=>{let r=i.clipboardData.getData("text/plain");r.trimEnd().includes(`
`)&&(i.preventDefault(),e({value:r}))};return a`<${rs} name="value" label="Value" help="At least 8 characters" control=${i=>t.value.includes(`
`)?a`<textarea class="masked" rows="3" spellcheck=${!1} autocomplete="off" value=${t.value}
          onInput=${n} ...${i}></textarea>`:a`<input type="password" autocomplete="new-password" value=${t.value} onInput=${n}
          onPaste=${s} ...${i} />`} />`}function uu({share:t,size:e,onCancel:n}){let s=t>=1;return a`<div class="upload-progress" role="group" aria-label="Upload">
    <progress value=${s?void 0:t} max="1" aria-label="Upload of the files"></progress>
    <span class="dim numbers" role="status">
      ${s?"Unpacking…":a`Uploading ${j(e)}<span aria-hidden="true">, ${J(t)}</span>`}
    </span>
    <button type="button" onClick=${n}>Cancel upload</button>
  </div>`}var Pg={"":"Empty",files:"Folder or archive",git:"Git repository"},Dg={ignored:"ignored by .gitignore",never:"never included",unreadable:"could not be read"},Fg=200;function du(){let{values:t,change:e}=z(G),n=L();return a`<fieldset class="workspace">
    <legend>Workspace</legend>
    <div class="segments" role="radiogroup" aria-label="What the workspace starts with">
      ${Object.entries(Pg).map(([s,o])=>a`<label key=${s}>
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
    ${t.from===""&&a`<p class="help">You can also drop a folder or an archive anywhere on this page.</p>`}
    ${t.from==="files"&&a`<${Wg} />`}
    ${t.from==="git"&&a`<${Ug} />`}
  </fieldset>`}function Wg(){let t=z(G).errors.files,e=L(),n=w(null),s=w(null),o=r=>({currentTarget:l})=>{let c=[...l.files];l.value="",c.length&&r(c)},i=r=>()=>r.current.click();return a`<div class="drop-zone" role="group" aria-label="Files" aria-describedby=${t?`${e}-error`:void 0}>
    ${xe.value?a`<${Bg} chosen=${xe.value} />`:a`<p>Drop a folder or an archive here</p>`}
    <div class="drop-ways">
      <label class="hidden" for="${e}-folder">Folder to upload</label>
      <input
        ref=${n}
        id="${e}-folder"
        type="file"
        webkitdirectory
        hidden
        onChange=${o(su)}
      />
      <button type="button" aria-invalid=${t?"true":void 0} onClick=${i(n)}>Choose folder…</button>
      <label class="hidden" for="${e}-archive">Archive to upload</label>
      <input
        ref=${s}
        id="${e}-archive"
        type="file"
        accept=".tar,.tgz,.gz,.zst,.zip"
        hidden
        onChange=${o(([r])=>yr(r))}
      />
      <button type="button" onClick=${i(s)}>Choose archive…</button>
      ${xe.value&&a`<button type="button" class="plain" onClick=${$o}>Remove</button>`}
    </div>
    ${t&&a`<p class="field-error" id="${e}-error" role="alert">${t}</p>`}
    <p class="help">
      Archives can be .tar, .tar.gz, .tar.zst or .zip. A folder is packed without <code>.git</code>,${" "}
      <code>node_modules</code>, caches, and what its <code>.gitignore</code> lists.
    </p>
  </div>`}function Bg({chosen:{status:t,name:e,kind:n,files:s,bytes:o,left:i,problem:r}}){if(t==="failed")return a`<p class="field-error" role="alert">${_(r)}</p>`;let l=n==="archive"?j(o):`${$(s)} ${s===1?"file":"files"}, ${j(o)}`;return a`<p role="status" aria-busy=${t==="reading"}>
      <strong class="chosen-name">${_(e)}</strong> ${t==="reading"&&"Reading…"}
      <span class="dim numbers">${l}</span>
    </p>
    ${t==="ready"&&i.length>0&&a`<${qg} left=${i} />`}`}function qg({left:t}){let e=t.slice(0,Fg),n=t.slice(0,3).map(({path:s})=>_(s)).join(", ");return a`<details class="left-out">
    <summary>Left out: ${n}${t.length>3&&` and ${$(t.length-3)} more`}</summary>
    <ul tabindex="0" aria-label="What was left out">
      ${e.map(({path:s,why:o})=>a`<li key=${s}><code>${_(s)}</code> <span class="dim">${Dg[o]}</span></li>`)}
      ${t.length>e.length&&a`<li class="dim">and ${$(t.length-e.length)} more</li>`}
    </ul>
  </details>`}function Ug(){let{values:t}=z(G),e=Hn(t),n=e.length?"Used only to clone":"To choose a credential, add it under Secrets",s={autocomplete:"off",autocapitalize:"none",spellcheck:!1};return a`<div class="git-fields">
    <${ye}
      name="gitUrl"
      label="Repository URL"
      inputmode="url"
      placeholder="https://git.example.com/team/project.git"
      help="HTTPS or SSH. It is cloned before the first step."
      ...${s}
    />
    <div class="fields">
      <${ye} name="gitRef" label="Branch, tag or commit" placeholder="default branch" ...${s} />
      <${ye} name="gitDepth" label="Depth (commits)" placeholder="full history" inputmode="numeric" />
      <${Ne} name="gitCredential" label="Credential" help=${n} disabled=${e.length===0}>
        <option value="">None</option>
        ${e.map(o=>a`<option key=${o} value=${o}>${o}</option>`)}
      <//>
    </div>
  </div>`}var zg=["task","model","otherModel","files","gitUrl","gitRef","gitDepth","gitCredential"],fu=t=>t.startsWith("secrets");function vo({onClose:t}){let e=w(null),{errors:n,rest:s,isBusy:o,upload:i,start:r}=Gg(t),[l,c]=y(!1),[u,d]=y(Ie.peek().secrets.length>0);v(()=>{un().then(()=>Xl(Se.peek()),re),t&&e.current.querySelector("textarea").focus()},[]),v(()=>{let m=Object.keys(n);m.some(fu)&&d(!0),m.some(x=>!zg.includes(x)&&!fu(x))&&c(!0),requestAnimationFrame(()=>e.current?.querySelector('[aria-invalid="true"]')?.focus())},[n]);let f=m=>{m.preventDefault(),r()},h=m=>{m.key==="Enter"&&(m.ctrlKey||m.metaKey)&&f(m)},p=Hn(Ie.value);return a`<${G.Provider} value=${{values:Ie.value,change:Wt,errors:n}}>
    <form
      ref=${e}
      class="create"
      aria-label="New session"
      onSubmit=${f}
      onKeyDown=${h}
      noValidate
    >
      <div class="task-field">
        <${dt}
          name="task"
          label="Task"
          rows="4"
          placeholder="What should the agent do?"
          onPaste=${oo(Ft)}
        />
        <${so} attachments=${Ft} />
        <${no} attachments=${Ft} />
      </div>
      <${lu} />
      <${du} />
      <details open=${u} onToggle=${m=>d(m.currentTarget.open)}>
        <summary>Secrets${p.length>0&&a` <span class="dim">${p.join(", ")}</span>`}</summary>
        <${cu} />
      </details>
      <details open=${l} onToggle=${m=>c(m.currentTarget.open)}>
        <summary>More${or(Ie.value)&&a` <span class="dim">settings changed</span>`}</summary>
        <${iu} />
        ${or(Ie.value)&&a`<p><button type="button" onClick=${Jl}>Use the server's settings</button></p>`}
      </details>
      ${s.length>0&&a`<div class="failure" role="alert">${s.map(m=>a`<p key=${m}>${m}</p>`)}</div>`}
      ${i&&a`<${uu} ...${i} />`}
      <footer>
        <button type="submit" class="primary" aria-disabled=${o?"true":void 0} aria-busy=${o}>
          Start
        </button>
        ${t&&a`<button type="button" onClick=${t}>Cancel</button>`}
        <span class="dim keys"><kbd>Ctrl</kbd> + <kbd>Enter</kbd> to start</span>
      </footer>
    </form>
  <//>`}function pu(t){if(jg(t))return void Ft.add([...t.dataTransfer.files]);Wt({from:"files"}),nu(t.dataTransfer)}function jg({target:t,dataTransfer:{files:e}}){return t.closest(".task-field")!==null&&[...e].every(({type:n})=>n.startsWith("image/"))}function Hg({from:t},e){if(t!=="files")return null;let{status:n,archive:s=null}=xe.value??{};return n?n==="reading"?e.files="The files are still being read.":n==="failed"&&(e.files="These files could not be read."):e.files="Choose a folder or an archive, or start with an empty workspace.",s}function Kg(t,e,n){if(!t.body)return{errors:{task:t.message},rest:[]};let{limit_bytes:s}=t.body;return!n||t.code!=="too_large"?Ys(t,e):{errors:{files:`These files are larger than the ${j(s)} that the server accepts.`},rest:[]}}function Gg(t){let[e,n]=y({errors:{},rest:[]}),[s,o]=y(!1),[i,r]=y(null),l=w(null);v(()=>()=>t&&l.current?.abort(),[]);async function c(){if(s)return;let u=Ie.value,{body:d,errors:f}=Ql(u),h=Hg(u,f);if(n({errors:f,rest:[]}),Object.keys(f).length>0)return;o(!0);let p=l.current=new AbortController,m=x=>r({share:x,size:h.size,onCancel:()=>p.abort()});h&&m(0);try{d.task=await Gs(d.task,Ft.items.value);let{id:x}=await Js(d,h,{onProgress:m,signal:p.signal});Yl(),$o(),t?.(),se(B(x))}catch(x){p.signal.aborted||n(Kg(x,u,h)),o(!1),r(null)}}return{...e,isBusy:s,upload:i,start:c}}var Vg="Write a small shell program and a test for it, run the test, and fix what fails.";function mu(){return v(()=>{Se.value===null&&un().catch(re)},[]),a`<section class="first-visit">
    <p>
      Palimpsest runs coding agents: give one a task, and it works on it step by step in a sandbox, with a shell and
      files. Here you can watch what it does and sees, steer it while it works, and see how its context is kept small.
    </p>
    ${Se.value&&a`<${Yg} />`}
  </section>`}function Yg(){let t=Se.value.find(xt),e=Se.value.some(s=>s.key_present&&!xt(s)),n=is();return e||!n||!xt(n)?a`<h2>Your first session</h2>
      <${vo} />
      ${t&&a`<p class="dim"><${hu} demo=${t} kind="" /> A scripted demo; no real model</p>`}`:a`<div class="choices">
      <div>
        <h2>See it in action</h2>
        <p>
          No model is set up yet, so a script stands in for one: its text is written in advance, but the tools, the
          sandbox and the events are real.
        </p>
        <${hu} demo=${t} kind="primary" />
      </div>
      <div>
        <h2>Set up a model</h2>
        <p>
          Start the server with an API key in <code>OPENAI_API_KEY</code> or <code>ANTHROPIC_API_KEY</code>, or with
          your own provider in <code>PALIMPSEST_PROVIDERS</code>, which needs no key. You can set these in a
          ${" "}<code>.env</code> file in the server's directory. Then reload this page.
        </p>
      </div>
    </div>`}function hu({demo:t,kind:e}){return a`<${C} kind=${e} onClick=${async()=>{let{id:s}=await Js({task:Vg,model:t.name});se(B(s))}}>Watch the demo<//>`}var Jg=300;function yo({sessionId:t,onClose:e}){let n=L(),[s,o]=y("");async function i(){let r=await H(b(t,"fork"),s.trim()?{title:s.trim()}:{});P("This is the fork. The original session is unchanged."),se(B(r.id)),e()}return a`<${ee} title="Fork session" onClose=${e}>
    <p>
      Creates a new session with the history up to the last finished step and a copy of the current workspace. This
      session is unchanged.
    </p>
    <div class="field">
      <label for=${n}>Title (defaults to this session's title)</label>
      <input
        id=${n}
        maxlength=${Jg}
        value=${s}
        onInput=${r=>o(r.currentTarget.value)}
      />
    </div>
    <footer>
      <button type="button" onClick=${e}>Cancel</button>
      <${C} kind="primary" onClick=${i}>Fork<//>
    </footer>
  <//>`}var Xg=300;function _o({name:t,session:e,onClose:n,onRenamed:s,onDeleted:o}){return t==="rename"?a`<${Qg} session=${e} onClose=${n} onRenamed=${s} />`:t==="fork"?a`<${yo} sessionId=${e.id} onClose=${n} />`:t!=="delete"?null:a`<${Zg} session=${e} onClose=${n} onDeleted=${o} />`}function Qg({session:t,onClose:e,onRenamed:n=()=>{}}){let[s,o]=y(t.title??""),i=async()=>{n(await Re(b(t.id),{title:s.trim()||null})),e()};return a`<${ee} title="Rename session" onClose=${e}>
    <div class="field">
      <label for="session-title">Title</label>
      <input
        id="session-title"
        autofocus
        maxlength=${Xg}
        value=${s}
        onInput=${l=>o(l.currentTarget.value)}
        onKeyDown=${l=>{l.key!=="Enter"||l.isComposing||(l.preventDefault(),i().catch(re))}}
      />
    </div>
    <footer>
      <button type="button" onClick=${e}>Cancel</button>
      <${C} kind="primary" onClick=${i}>Rename<//>
    </footer>
  <//>`}function Zg({session:t,onClose:e,onDeleted:n=()=>{}}){let s=t.status==="idle"?"":"Its run will be stopped. ",o=async()=>{try{await we(b(t.id))}catch(i){if(i.status!==404)throw i}n()};return a`<${Te}
    title="Delete session?"
    text="${s}“${ge(t)}” will be deleted with its history, files and sandbox. This cannot be undone."
    verb="Delete"
    onConfirm=${o}
    onClose=${e}
  />`}function bo({session:{activity:t,compaction:e}}){if(!t)return e.in_progress?"Compacting…":"Thinking…";let{verb:n,argument:s,more:o}=sn(t);return a`${n} <code>${s}</code>${o}`}function $u(t,e,n){let s=URL.createObjectURL(new Blob([e],{type:n})),o=document.createElement("a");o.href=s,o.download=t,o.click(),setTimeout(()=>URL.revokeObjectURL(s),6e4)}async function De(t){if(navigator.clipboard){await navigator.clipboard.writeText(t);return}let e=document.createElement("textarea");e.className="hidden",e.value=t;let n=document.activeElement;document.body.append(e),e.select();let s=document.execCommand("copy");if(e.remove(),n?.focus(),!s)throw new Error("The browser did not allow copying.")}function kt({text:t,name:e}){let n=async()=>{await De(typeof t=="function"?await t():t),P("Copied.")},s=`Copy ${e}`;return a`<${C} kind="copy" aria-label=${s} title=${s} onClick=${n}><${Xe} name="copy" /><//>`}function wo(t,e){let n={starts:[],ends:[],lines:[]},s=0;for(let o=0;o<=t.length;){let i=t.indexOf(`
`,o),r=i<0?t.length:i;if(s+=1,o===t.length&&s>1)break;ev(n,t,o,r,s,e),o=r+1}return n}function ev(t,e,n,s,o,i){let r=n,l=o;do{let c=wr(e,r,s,i);t.starts.push(r),t.ends.push(c),t.lines.push(l),r=c,l=0}while(r<s)}function wr(t,e,n,s){if(n-e<=s/4)return n;let o=0,i=e;for(;i<n&&o<s;){let r=t.charCodeAt(i);o+=r===9?4-o%4:1,i+=r>=55296&&r<=56319&&i+1<n?2:1}return i}function Ee(t,e,n,s){let o=[],i=e,r=(l,c)=>{l>i&&o.push({text:t.slice(i,l),scope:c}),i=Math.max(i,l)};for(let l=tv(s,e);l<s.length&&s[l].start<n;l+=1)r(Math.min(s[l].start,n),null),r(Math.min(s[l].end,n),s[l].scope);return r(n,null),o}function tv(t,e){let n=0,s=t.length;for(;n<s;){let o=n+s>>1;t[o].end<=e?n=o+1:s=o}return n}var xr=4e3;function ae({label:t,text:e,tokens:n=[]}){let s=N(()=>gu(e),[e]),o=([i,r])=>Ee(e,i,r,n).map(as);return a`<pre class="long-text" tabindex="0" role="region" aria-label=${t}>
    ${s.length===1?o(s[0]):s.map((i,r)=>a`<div key=${r} class="block">${o(i)}</div>`)}
  </pre>`}var as=({text:t,scope:e})=>e?a`<span class=${e}>${t}</span>`:t,St=t=>gu(t).map(([e,n])=>t.slice(e,n));function gu(t){let e=[],n=0;for(;t.length-n>xr;){let s=t.lastIndexOf(`
`,n+xr),o=s>n?s:nv(t,n+xr);e.push([n,o]),n=s>n?o+1:o}return e.push([n,t.length]),e}function nv(t,e){let n=t.charCodeAt(e);return n>=56320&&n<=57343?e-1:e}var vu=new URL("../worker.js",import.meta.url).href,sv=globalThis.trustedTypes?.createPolicy("worker",{createScriptURL:()=>vu}),dn=class{#e=null;#t=[];#n=null;#s=null;run(e,...n){return new Promise(s=>{this.#t.push({message:[e,...n],resolve:s}),this.#o()})}#o(){this.#n||this.#t.length===0||(this.#n=this.#t.pop(),this.#e??=this.#i(),this.#e.postMessage(this.#n.message))}#i(){let e=new Worker(sv?.createScriptURL("")??vu,{type:"module"});return e.onmessage=({data:n})=>{n.started?this.#s=setTimeout(()=>this.#a(),2e3):this.#r(n.result)},e.onerror=e.onmessageerror=()=>this.#a(),e}#a(){this.#e.terminate(),this.#e=null,this.#r(null)}#r(e){clearTimeout(this.#s);let{resolve:n}=this.#n;this.#n=null,n(e),this.#o()}};var _u=5e4,ov=200,iv=new Set("bash c cpp css diff dockerfile go ini java javascript json makefile markdown python ruby rust shell sql typescript xml yaml".split(" ")),yu={sh:"bash",zsh:"bash",ksh:"bash",console:"shell","shell-session":"shell",terminal:"shell",h:"c",cc:"cpp",cxx:"cpp","c++":"cpp",hpp:"cpp",hh:"cpp",scss:"css",less:"css",patch:"diff",docker:"dockerfile",golang:"go",toml:"ini",cfg:"ini",conf:"ini",properties:"ini",env:"ini",js:"javascript",mjs:"javascript",cjs:"javascript",jsx:"javascript",ts:"typescript",tsx:"typescript",json5:"json",jsonc:"json",jsonl:"json",mk:"makefile",make:"makefile",md:"markdown",py:"python",pyi:"python",py3:"python",rb:"ruby",rs:"rust",html:"xml",svg:"xml",xhtml:"xml",yml:"yaml"};function bu(t){let e=t.toLowerCase(),n=Object.hasOwn(yu,e)?yu[e]:e;return iv.has(n)?n:null}function xo(t){let e=t.slice(t.lastIndexOf("/")+1);return/^(GNU)?makefile$/i.test(e)?"makefile":/^(Docker|Container)file/i.test(e)?"dockerfile":e.includes(".")?bu(e.slice(e.lastIndexOf(".")+1))??"":""}function pn({text:t,language:e,isOpen:n=!1}){let s=R(t),o=n||s.length>_u?null:bu(e??""),i=ku(s,o);return a`<div class="copyable">
    <pre class="code" dir="ltr">${i?Ee(s,0,s.length,i).map(hn):xu(s)}</pre>
    ${!n&&a`<${kt} text=${t} name="code" />`}
  </div>`}function wu({label:t,text:e,language:n}){let s=ku(e,e.length>_u?null:n);return a`<pre class="long-text" tabindex="0" role="region" aria-label=${t} dir="ltr">
    ${s?Ee(e,0,e.length,s).map(hn):xu(e)}
  </pre>`}function xu(t){let e=St(t);return e.length===1?t:e.map((n,s)=>a`<div key=${s} class="block">${n}</div>`)}var hn=({text:t,scope:e})=>e?a`<span class=${`hl-${e.split(".")[0]}`}>${t}</span>`:t,rv=new dn,fn=new Map;function ku(t,e){let n=`${e}
${t}`,[,s]=y(null);return v(()=>{if(!e||fn.has(n))return;let o=!0;return ls(t,e).then(i=>{av(n,i),o&&s(n)}),()=>{o=!1}},[n]),e?fn.get(n)??null:null}function av(t,e){fn.set(t,e),fn.size>ov&&fn.delete(fn.keys().next().value)}var ls=(t,e)=>rv.run("colors",t,e);var lv=60;function mn({name:t,args:e}){if(typeof e=="string")return a`<${Su} label="Arguments (not a JSON object)" text=${e} />`;let n=Object.entries(e).map(([l,c])=>[_(l),cv(c)]);if(n.length===0)return a`<p class="dim">No arguments.</p>`;let s=l=>t==="execute_command"&&l==="command",o=([l,c])=>c.length<=lv&&!c.includes(`
`)&&!s(l),i=n.filter(o),r=([l,c])=>a`<${Su} key=${l} label=${l} text=${c} isCommand=${s(l)} />`;return a`<div class="call-arguments">
    ${n.filter(([l])=>s(l)).map(r)}
    ${i.length>0&&a`<dl>
      ${i.map(([l,c])=>a`<div key=${l}><dt>${l}</dt><dd><code>${_(c)}</code></dd></div>`)}
    </dl>`}
    ${n.filter(l=>!o(l)&&!s(l[0])).map(r)}
  </div>`}var cv=t=>typeof t=="string"?t:JSON.stringify(t,null,2);function Su({label:t,text:e,isCommand:n=!1}){return a`<figure class="argument">
    <figcaption>${t}</figcaption>
    ${n?a`<${wu} label=${t} text=${R(e)} language="bash" />`:a`<${ae} label=${t} text=${R(e)} />`}
  </figure>`}var uv=500,dv=3e4,Cu=409,fv=4e3;function ko({state:t,policy:e=t.session?.value?.approval.policy}){let n=t.approvals.value,s=w(null),{changedAt:o,decidedHere:i}=kr(n,s),r=async(f,h)=>{i.add(f);try{await Je("POST",b(t.id,"approvals",f),{body:h})}catch(p){throw p.status===Cu?Eu(t,f):i.delete(f),p}Eu(t,f)},l=()=>{let f=performance.now()-o.current<uv;return f&&P("Click ignored: the pending calls had just changed. Check them again."),f},c=async(f,h,p)=>{l()||await r(f,{decision:h,...p?{reason:p}:{}})},u=async(f,h)=>{l()||(await Re(b(t.id),{approval:await hv(t.id,h)}),await r(f,{decision:"approve"}))},d=async f=>{l()||await mv(n,h=>r(h,{decision:f}))};return a`<p class="hidden" role="status">${$v(n)}</p>
    <section class="approvals" aria-label="Approvals" ref=${s} hidden=${n.length===0}>
      ${n.length>1&&a`<div class="approvals-all">
        <p>${n.length} calls are waiting. None starts until all are decided.</p>
        <${C} onClick=${()=>d("approve")}>Approve all<//>
        <${C} kind="danger" onClick=${()=>d("deny")}>Deny all<//>
      </div>`}
      ${n.map((f,h)=>a`<${gv}
          key=${f.call_id}
          approval=${f}
          place=${n.length>1?`${h+1} of ${n.length}`:""}
          decide=${c}
          allow=${pv(e,f)?u:null}
        />`)}
      ${e==="always"&&a`<p class="approvals-note dim">
        Every tool call of this session needs approval. To approve only some, change its settings.
      </p>`}
    </section>`}var pv=(t,{name:e,subagent_id:n})=>!n&&Ou(t,e),Ou=(t,e)=>typeof t=="object"&&t.tools.includes(e);async function hv(t,e){let{policy:n,timeout_s:s}=(await E(b(t))).approval;if(!Ou(n,e))return{policy:n,timeout_s:s};let o=n.tools.filter(r=>r!==e);return{policy:o.length>0||n.commands.length>0?{...n,tools:o}:"never",timeout_s:s}}function Eu(t,e){t.approvals.value=t.approvals.value.filter(({call_id:n})=>n!==e)}async function mv(t,e){let n=0;for(let{call_id:s}of t)try{await e(s)}catch(o){if(o.status!==Cu)throw o;n+=1}n&&P(`${n} of ${t.length} calls had already been decided.`)}var $v=t=>t.length?`Waiting for approval: ${t.map(({name:e})=>ve(e)).join(", ")}.`:"";function kr(t,e){let n=t.map(({call_id:r})=>r),s=w(-1/0),{current:o}=w(new Set),i=w([]);return v(()=>{i.current.length>0&&(s.current=performance.now());let r=i.current.filter(u=>!n.includes(u));if(i.current=n,!(r.filter(u=>o.delete(u)).length>0)||document.activeElement!==document.body)return;(e.current.querySelector("h2")??document.querySelector(".composer textarea"))?.focus()},[n.join()]),{changedAt:s,decidedHere:o}}function gv({approval:t,place:e,decide:n,allow:s}){let{call_id:o,name:i,arguments:r,expires_at:l}=t,c=L(),[u,d]=y(!1),[f,h]=y(""),p=()=>n(o,"deny",f.trim());return a`<article class="approval" aria-labelledby=${c} data-call-id=${o}>
    <header>
      <h2 id=${c} tabindex="-1">Run <code>${ve(i)}</code>?</h2>
      ${e&&a`<span class="dim">${e}</span>`}
      ${l&&a`<${Sr} until=${Date.parse(l)} />`}
    </header>
    <${mn} name=${i} args=${r} />
    ${u&&a`<${vv} value=${f} onInput=${h} onEnter=${p} />`}
    <footer>
      <${C} kind="primary" data-decision="approve" onClick=${()=>n(o,"approve")}>Approve<//>
      <${C} kind="danger" data-decision="deny" onClick=${p}>${f.trim()?"Deny with reason":"Deny"}<//>
      ${s&&a`<${C}
        title="Approves this call, and lets later calls of ${ve(i)} in this session run without approval"
        onClick=${()=>s(o,i)}
      >
        Allow ${ve(i)} for this session
      <//>`}
      <button type="button" class="plain" aria-expanded=${u} onClick=${()=>d(!u)}>
        ${u?"Remove reason":"Add reason"}
      </button>
    </footer>
  </article>`}function vv({value:t,onInput:e,onEnter:n}){let s=L(),o=w(null);return v(()=>(o.current.focus(),()=>e("")),[]),a`<div class="field">
    <label for=${s}>Reason for the denial (shown to the model)</label>
    <input
      ref=${o}
      id=${s}
      maxlength=${fv}
      value=${t}
      onInput=${r=>e(r.target.value)}
      onKeyDown=${r=>{r.key==="Enter"&&!r.isComposing&&n().catch(re)}}
    />
  </div>`}function Sr({until:t,verb:e="auto-deny",end:n="timed out: denied"}){let s=t-Le.value;if(s<=0)return a`<span class="countdown badge bad">${n}</span>`;let o=`${e} in ${U(Math.ceil(s/1e3)*1e3)}`;return a`<span role="timer" class="countdown badge ${s<dv?"bad":"waiting"}">${o}</span>`}function Tu({session:{id:t,last_seq:e,approval:n}}){let s=N(()=>({id:t,approvals:g([])}),[t]);return v(()=>{let o=!0,i=({items:r})=>o&&(s.approvals.value=r);return E(b(t,"approvals")).then(i,re),()=>o=!1},[t,e]),a`<div class="row-approvals"><${ko} state=${s} policy=${n.policy} /></div>`}var Er=4;function $n({label:t,name:e,items:n,kind:s=""}){let o=L(),i=w(null),r=w(null),[l,c]=y(!1);return a`<button
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
      onBeforeToggle=${({newState:f})=>{f==="open"&&(c(!0),_v(r.current,i.current,n.length))}}
      onToggle=${({newState:f})=>{f==="open"?Au(r.current,0):c(!1)}}
      onKeyDown=${f=>bv(f,r.current)}
    >
      ${l&&n.map(f=>a`<${yv} key=${f.label} item=${f} menu=${r} />`)}
    </div>`}function yv({item:{label:t,onClick:e,kind:n=""},menu:s}){return a`<button type="button" role="menuitem" tabindex="-1" class="plain ${n}" onClick=${()=>{s.current.hidePopover(),e()}}>
    ${t}
  </button>`}function _v(t,e,n){let{top:s,bottom:o,right:i}=e.getBoundingClientRect(),r=innerHeight-o>n*40||o<innerHeight/2;t.style.right=`${Math.max(Er,document.documentElement.clientWidth-i)}px`,t.style.top=r?`${o+Er}px`:"auto",t.style.bottom=r?"auto":`${innerHeight-s+Er}px`}var Mu=t=>[...t.querySelectorAll('[role="menuitem"]')];function Au(t,e){let n=Mu(t);n.at(e%n.length)?.focus()}function bv(t,e){let n=Mu(e).indexOf(document.activeElement),s={ArrowDown:n+1,ArrowUp:n-1,Home:0,End:-1}[t.key];t.key==="Tab"&&e.hidePopover(),s!==void 0&&(t.preventDefault(),Au(e,s))}function Lu({session:t,name:e,onChanged:n,openDialog:s}){return a`<li class="session-row ${t.unseen?"unseen":""}" data-session-id=${t.id}>
    <div class="row-name">
      <a href=${B(t.id)}>${e}</a>
      ${t.unseen&&a`<span class="hidden">, not opened since it ended</span>`}
      <${wv} session=${t} />
    </div>
    <div class="row-status"><${Zt} session=${t} /><${Ev} session=${t} /></div>
    <span class="row-model dim">${t.model}</span>
    <span class="row-steps numbers">${Sv(t.steps,"step")}</span>
    <span class="row-cost numbers"><${Cv} usage=${t.usage} /></span>
    <span class="row-context numbers"><${Ov} context=${t.context} /></span>
    <span class="row-time dim">
      <${he} time=${t.status==="running"?t.created_at:t.placed_at} />
    </span>
    <${Tv} session=${t} name=${e} onChanged=${n} openDialog=${s} />
    ${t.status==="awaiting_approval"&&a`<${Tu} session=${t} />`}
  </li>`}function wv({session:t}){return t.status==="idle"?t.error?a`<${xv} error=${t.error} isBad=${lt(t)} />`:a`<${kv} session=${t} />`:t.status==="awaiting_approval"?null:a`<p class="row-now dim"><${bo} session=${t} /></p>`}function xv({error:t,isBad:e}){let n=_(t.detail||t.title||t.code||"");return a`<p class="row-error ${e?"":"dim"}" title=${n}>${n}</p>`}var Ru=200;function kv({session:{output:t,answer:e}}){let n=t==null?qa((e??"").slice(0,Ru)):_(JSON.stringify(t));return n?a`<p class="row-result dim">${n.slice(0,Ru)}</p>`:null}var Sv=(t,e)=>`${$(t)} ${e}${t===1?"":"s"}`;function Ev({session:{compaction:t,queue:e}}){return a`${t.in_progress&&a`<${W} kind="running">compacting<//>`}
  ${e.pending>0&&a`<${W}>${$(e.pending)} queued<//>`}`}function Cv({usage:{cost_usd:t}}){return t!==null?te(t):a`<span class="unknown" title="The model's price is unknown."><span class="unit">cost </span>unknown</span>`}function Ov({context:{tokens:t,usable:e}}){return e?a`${oe(t)}<span class="dim"> of ${oe(e)}<span class="unit"> tokens</span></span>`:`${oe(t)} tokens`}function Tv({session:t,name:e,onChanged:n,openDialog:s}){let o=async()=>{n(await H(b(t.id,"cancel"))),P(`Cancelling “${e}”…`)},i=[{label:"Rename",onClick:()=>s("rename",t)},{label:"Fork",onClick:()=>s("fork",t)},{label:"Delete",onClick:()=>s("delete",t),kind:"danger"}];return t.status!=="idle"&&i.splice(1,0,{label:"Cancel run",onClick:()=>o().catch(re)}),a`<div class="row-menu">
    <${$n} label="⋯" name="Actions for ${e}" items=${i} kind="plain" />
  </div>`}var Nu={"":"All",needs_attention:"Needs you",running:"Running",awaiting_approval:"Awaiting approval",awaiting_client:"Awaiting client",idle:"Done"},Mv={"":"sessions",needs_attention:"sessions that need you",running:"running sessions",awaiting_approval:"sessions awaiting approval",awaiting_client:"sessions awaiting a client",idle:"sessions that are done"},Av=250,Rv=3e3,Cr={top:0};function Pu(){let t=w(null),[e,n]=y(null),s=(d,f)=>n({name:d,session:f});v(()=>{ct.value="Sessions"},[]),Lv(),M(()=>{Cr.top>0&&(t.current.scrollTop=Cr.top)},[]);let o=d=>Cr.top=d.currentTarget.scrollTop,{status:i,q:r}=A.filter.value,l=A.loaded.value&&A.items.value.length===0&&!i&&!r,{isOver:c,...u}=io(d=>{l||(at.value=!0),pu(d)});return a`<main
    class="page sessions ${c?"drop-target":""}"
    ref=${t}
    onScroll=${o}
    ...${u}
  >
    <${Nv} isFirst=${l} />
    ${at.value&&!l&&a`<${vo} onClose=${()=>at.value=!1} />`}
    ${A.problem.value&&a`<${F} problem=${A.problem.value} onRetry=${()=>Iv()} />`}
    ${l?a`<${mu} />`:a`<${Pv} /><${Fv} dialog=${e} openDialog=${s} />`}
    ${e&&a`<${Dv} ...${e} onClose=${()=>n(null)} />`}
    <${jv} />
  </main>`}function Lv(){let{status:t="",q:e=""}=X.value.query,n=w(!t&&!e);v(()=>{n.current?ze(A.filter.peek()):A.setFilter({status:t in Nu?t:"",q:e}),n.current=!1},[t,e])}function Iv(){if(A.follower.value?.state.value!=="closed")return A.load({keep:!0});A.problem.value=null,A.close(),A.open()}function Nv({isFirst:t}){let e=()=>at.value=!at.value;return a`<div class="page-head">
    <h1>${t?"Welcome":"Sessions"}</h1>
    <${ro} follower=${A.follower.value} />
    ${!t&&a`<button type="button" class="primary" aria-expanded=${at.value} onClick=${e}>
      New session
    </button>`}
  </div>`}function Pv(){let{status:t,q:e}=A.filter.value,[n,s]=y(e),o=w(e),i=r=>ze({status:r.currentTarget.value});return v(()=>{if(n===e)return;let r=setTimeout(()=>{o.current=n,ze({q:n})},Av);return()=>clearTimeout(r)},[n]),v(()=>{e!==o.current&&s(e),o.current=e},[e]),a`<div class="filter" role="search">
    <input
      type="search"
      aria-label="Search titles and tasks"
      placeholder="Search titles and tasks"
      maxlength="500"
      value=${n}
      onInput=${r=>s(r.currentTarget.value)}
    />
    <select aria-label="Status" value=${t} onChange=${i}>
      ${Object.entries(Nu).map(([r,l])=>a`<option key=${r} value=${r}>${l}</option>`)}
    </select>
  </div>`}function Dv({name:t,session:e,onClose:n}){let s=A.items.value.find(({id:r})=>r===e.id)??e;return a`<${_o} ...${{name:t,session:s,onClose:n,onRenamed:r=>A.put(r),onDeleted:()=>{n(),A.removed(s.id)}}} />`}function Fv({dialog:t,openDialog:e}){let n=A.items.value,s=A.loading.value,o=qv(n,t);if(n.length===0)return a`<${Uv} isLoading=${s||!A.loaded.value} />`;let i=oc.map(([r,l])=>[r,n.filter(l)]);return a`<div class="session-sections" aria-busy=${s} ...${o}>
      ${i.filter(([,r])=>r.length>0).map(([r,l])=>a`<${Wv} key=${r} ...${{name:r,items:l,openDialog:e}} />`)}
    </div>
    <${zv} />`}function Wv({name:t,items:e,openDialog:n}){let s=L(),o=t==="Done"&&A.nextCursor.value!==null,{current:i}=w(new WeakMap),r=l=>(i.has(l)||i.set(l,a`<${Bv} key=${l.id} ...${{session:l,openDialog:n}} />`),i.get(l));return a`<section aria-labelledby=${s}>
    <h2 id=${s}>${t} <span class="dim numbers">${$(e.length)}${o&&"+"}</span></h2>
    <ul class="session-list" aria-label=${t}>
      ${e.map(r)}
    </ul>
  </section>`}function Bv({session:t,openDialog:e}){let n=s=>A.put(s);return a`<${Lu} ...${{session:t,name:ge(t),onChanged:n,openDialog:e}} />`}function qv(t,e){let n=w(null),s=w(null);return v(()=>{if(s.current===null||document.activeElement!==document.body)return;let{id:r,index:l}=s.current;t.some(c=>c.id===r)||Iu(n.current)[Math.min(l,t.length-1)]?.querySelector("a").focus()},[t,e]),{ref:n,onFocusIn:({target:r})=>{if(!n.current)return;let l=r.closest(".session-row");s.current=l&&{id:l.dataset.sessionId,index:Iu(n.current).indexOf(l)}},onFocusOut:({relatedTarget:r})=>{r&&!n.current?.contains(r)&&!r.closest("dialog")&&(s.current=null)}}}var Iu=t=>[...t?.querySelectorAll(".session-row")??[]];function Uv({isLoading:t}){if(A.problem.value)return null;if(t)return a`<p class="dim" aria-busy="true">Loading…</p>`;let{status:e,q:n}=A.filter.value;return a`<p class="dim">No ${Mv[e]}${n&&` match “${_(n)}”`}</p>`}function zv(){let t=w(null),e=A.nextCursor.value!==null;return v(()=>{if(!e)return;let n=new IntersectionObserver(([{isIntersecting:s}])=>s&&A.more(),{rootMargin:"300px"});return n.observe(t.current),()=>n.disconnect()},[e,A.items.value.length]),e?a`<p ref=${t} class="more">
    <button type="button" aria-disabled=${A.loading.value} onClick=${()=>A.more()}>Load more</button>
  </p>`:null}function jv(){let[t,e]=y("");return Kv(e),v(()=>{let n=new Map,s=null,o=i=>{i.status!=="running"&&(n.set(i.id,`${ge(i)}: ${Hv(i)}.`),s??=setTimeout(()=>{let r=`${n.size} sessions have ended or are waiting for you.`;e(n.size>3?r:[...n.values()].join(" ")),n.clear(),s=null},Rv))};return A.watchers.add(o),()=>{clearTimeout(s),A.watchers.delete(o)}},[]),a`<p class="hidden" role="status">${t}</p>`}var Hv=({status:t,outcome:e})=>(t==="idle"?e:t)?.replace("_"," ")??"idle";function Kv(t){let{status:e,q:n}=A.filter.value,s=A.loaded.value;v(()=>{if(!s||!e&&!n)return;let o=A.items.value.length,i=A.nextCursor.value===null?"":" or more";t(`${$(o)}${i} session${o===1?"":"s"} found.`)},[s,e,n])}var Gv=.8,Vv={reported:"reported by the provider",estimated:"estimated",assumed:"window assumed"},So={near:"near the limit",over:"over the limit"};function Yv({tokens:t,usable:e}){return t>e?"over":t>=e*Gv?"near":"calm"}function Du({context:t}){let{tokens:e,limit:n,usable:s,source:o}=t;if(!n)return a`<span class="gauge dim">no context yet</span>`;let i=Yv(t),r=`${$(e)} of ${$(s)} usable tokens, in a window of ${$(n)};
    ${Vv[o]??o}${So[i]?`; ${So[i]}`:""}`.replace(/\s+/g," ");return a`<span class="gauge ${i}" title=${r}>
    <span
      class="ring"
      style=${{"--share":J(Math.min(1,e/s))}}
      role="meter"
      aria-label="Context"
      aria-valuemin="0"
      aria-valuemax=${n}
      aria-valuenow=${Math.min(e,n)}
      aria-valuetext=${r}
    ></span>
    <span class="numbers" aria-hidden="true">${oe(e)} of ${oe(s)}</span>
    ${So[i]&&a`<span class="badge ${i==="over"?"bad":"warn"}" aria-hidden="true">${So[i]}</span>`}
  </span>`}var Fu=320,Wu=200,Eo=g(null);function Co({path:t,media_type:e,width:n,height:s}){let o=n&&s?`, ${n} × ${s}`:"";return _(`Image ${t??`(${e.replace("image/","").toUpperCase()})`}${o}`)}function Or({sessionId:t,part:e}){let[n,s]=y(!1),o=Co(e);return e.digest?n?a`<p class="dim">${o}, could not be loaded</p>`:a`<figure class="message-image">
    <button type="button" aria-label=${`Open ${o}`} onClick=${()=>Eo.value={sessionId:t,part:e}}>
      <img
        src=${b(t,"images",e.digest)}
        alt=${o}
        loading="lazy"
        ...${Bu(e)}
        onError=${()=>s(!0)}
      />
    </button>
    ${e.compacted_at&&a`<figcaption class="dim">Cleared from the context</figcaption>`}
  </figure>`:a`<p class="dim">${o}, not shown</p>`}function qt({sessionId:t,parts:e}){let n=e.filter(({type:s})=>s==="image");return n.length===0?null:a`<div class="message-images">
    ${n.map((s,o)=>a`<${Or} key=${s.id??o} sessionId=${t} part=${s} />`)}
  </div>`}function Bu({width:t,height:e}){if(!t||!e)return{width:Fu,height:Wu};let n=Math.min(1,Fu/t,Wu/e);return{width:Math.max(1,Math.round(t*n)),height:Math.max(1,Math.round(e*n))}}var qu=t=>Bu(t).height+12;function Uu(){let t=()=>Eo.value=null;if(v(()=>t,[]),!Eo.value)return null;let{sessionId:e,part:n}=Eo.value,s=b(e,"images",n.digest),o=Co(n);return a`<${ee} title=${o} wide=${!0} onClose=${t}>
    <div class="whole-image" tabindex="0" role="region" aria-label=${o}><img src=${s} alt=${o} /></div>
    <footer>
      <span class="dim">${_(n.media_type)}${n.bytes?`, ${j(n.bytes)}`:""}</span>
      <a class="button" href=${s} download=${Jv(n)}>Download</a>
    </footer>
  <//>`}function Jv({path:t,digest:e,media_type:n}){return t?.slice(t.lastIndexOf("/")+1)??`${e.slice(0,16)}.${n.replace("image/","")}`}var cs=null,Mr=g(!1);async function Hu(){try{cs??=await import("../later/markdown-F5QJ27GG.js")}catch(t){console.error(t)}Mr.value=!0}var Xv=150,gn=new Map,Qv=new dn,Tr=new WeakMap;function Ct(t){return cs?a`<${Zv} ...${t} />`:a`<div class="prose as-is">${R(t.text)}</div>`}function Zv({id:t,text:e,isWhole:n}){let[,s]=y(0),{markdown:o,arrived:i}=ey(t);i.value;let r=performance.now(),l=o.update(e,n);M(()=>{l===0&&o.spent(performance.now()-r)}),v(()=>{if(l===0||l===1/0)return;let d=setTimeout(()=>s(f=>f+1),l);return()=>clearTimeout(d)});let{groups:c,tail:u}=o;return a`<div class="prose" dir="auto">
    ${c.map((d,f)=>Ku(d,()=>a`<div key=${f} class="prose-group">${d.map(zu)}</div>`))}
    <div key="tail" class="prose-group">${u.map(zu)}</div>
  </div>`}function ey(t){let e=gn.get(t)??ty();return gn.delete(t),gn.set(t,e),gn.size>Xv&&gn.delete(gn.keys().next().value),e}function ty(){let t=g(0),e=async(n,s)=>{s(await Qv.run("blocks",n)),t.value+=1};return{markdown:new cs.GrowingMarkdown(e),arrived:t}}function Ku(t,e){return Tr.has(t)||Tr.set(t,e()),Tr.get(t)}var zu=t=>Ku(t,()=>Vu[t.type]?.(t)??null),Gu=t=>t.map(e=>Vu[e.type]?.(e)??Yu(e)),Et=t=>t.map(Yu),Vu={space:()=>null,heading:({depth:t,tokens:e})=>Ye(`h${Math.min(6,t+2)}`,{dir:"auto"},Et(e)),paragraph:({tokens:t})=>a`<p dir="auto">${Et(t)}</p>`,blockquote:({tokens:t})=>a`<blockquote>${Gu(t)}</blockquote>`,hr:()=>a`<hr />`,list:ny,table:sy,code:({text:t,lang:e,isOpen:n})=>a`<${pn} text=${t} language=${(e??"").split(/\s/)[0]} isOpen=${n} />`,html:({text:t})=>a`<p class="as-is">${R(t.trimEnd())}</p>`,plain:({text:t})=>St(R(t)).map((e,n)=>a`<div key=${n} class="as-is block">${e}</div>`)};function ny({ordered:t,start:e,items:n}){let s=n.map(({task:o,checked:i,tokens:r},l)=>{let c=a`<input type="checkbox" disabled checked=${i} aria-label=${i?"done":"to do"} />`;return a`<li key=${l} class=${o?"task":""} dir="auto">
      ${o&&c}${Gu(r.filter(({type:u})=>u!=="checkbox"))}
    </li>`});return t?a`<ol start=${Number(e)||1}>${s}</ol>`:a`<ul>${s}</ul>`}function sy({header:t,rows:e}){let n=(s,{tokens:o,align:i})=>Ye(s,{class:i?`align-${i}`:""},Et(o));return a`<div class="scroll-x" tabindex="0" role="region" aria-label="Table">
    <table>
      <thead>
        <tr>${t.map(s=>n("th",s))}</tr>
      </thead>
      <tbody>${e.map(s=>a`<tr>${s.map(o=>n("td",o))}</tr>`)}</tbody>
    </table>
  </div>`}var oy={strong:({tokens:t})=>a`<strong>${Et(t)}</strong>`,em:({tokens:t})=>a`<em>${Et(t)}</em>`,del:({tokens:t})=>a`<del>${Et(t)}</del>`,codespan:({text:t})=>a`<code>${R(t)}</code>`,br:()=>a`<br />`,link:({href:t,tokens:e})=>ju(t,Et(e)),image:({href:t,text:e})=>ju(t,`image: ${e?`${_(e)} `:""}(${_(t)})`),escape:({text:t})=>R(t),checkbox:()=>null};function ju(t,e){let n=_(t);return cs.safeAddress(t)?a`<a href=${t} title=${n} target="_blank" rel="noreferrer noopener">${e}</a>`:a`<span>${e} <span class="dim">(${n})</span></span>`}function Yu(t){let e=oy[t.type];return e?e(t):t.type==="text"&&t.tokens?Et(t.tokens):R(t.type==="text"&&!t.literal?cs.unescaped(t.text):t.text??t.raw)}var us=g(null);async function Oo(){us.value=await E("/v1/nodes")}var ds=()=>(us.value?.items.length??0)>0;function Ar(t){let{name:e}=us.value?.items.find(n=>n.id===t)??{};return e?`${e} (${t.slice(-6)})`:t.slice(-6)}var He=t=>t.input_tokens+t.cache_read_tokens+t.cache_write_tokens,Fe=t=>He(t)+t.output_tokens;function We(t){let e=He(t);return e===0?null:t.cache_read_tokens/e}function To(t){let e={...iy};for(let n of t){for(let o of Ju)e[o]+=n[o];let s=e.cost_usd!==null&&n.cost_usd!==null;e.cost_usd=s?e.cost_usd+n.cost_usd:null}return e}var Ju=["input_tokens","cache_read_tokens","cache_write_tokens","output_tokens","reasoning_tokens"],iy={...Object.fromEntries(Ju.map(t=>[t,0])),cost_usd:0};function Ze({name:t,value:e,children:n}){return a`<div class="figure">
    <dt>${t}</dt>
    <dd>
      <span class="figure-value numbers">${e}</span>
      ${n&&a`<span class="dim">${n}</span>`}
    </dd>
  </div>`}function Mo({usage:t,atLeast:e,children:n}){let s=He(t);return a`<dl class="figures">
    <${Ze} name="Cost" value=${Qu(t.cost_usd,e)} />
    <${Ze} name="Input" value=${oe(s)}>
      tokens: ${$(t.input_tokens)} new, ${$(t.cache_read_tokens)} cached,
      ${" "}${$(t.cache_write_tokens)} written to the cache
    <//>
    <${Ze} name="Output" value=${oe(t.output_tokens)}>
      tokens, ${$(t.reasoning_tokens)} of them reasoning
    <//>
    <${Ze} name="Cache reuse" value=${J(We(t))}>of input tokens came from the cache<//>
    ${n}
  </dl>`}function Qu(t,e){return t!==null?te(t):e?`at least ${te(e)}`:"unknown"}var Zu=["New input","Cache read","Cache write","Output","Reuse","Cost"];function Ao(){return Zu.map(t=>a`<th key=${t} scope="col" class="number">${t}</th>`)}function fs({usage:t,atLeast:e}){return[$(t.input_tokens),$(t.cache_read_tokens),$(t.cache_write_tokens),$(t.output_tokens),J(We(t)),Qu(t.cost_usd,e)].map((s,o)=>a`<td key=${Zu[o]} class="number">${s}</td>`)}function et({name:t,children:e}){return a`<div class="table-box" role="region" aria-label=${t} tabindex="0">
    <table>
      ${e}
    </table>
  </div>`}var Xu=100;function Ro(t){let[e,n]=y(Xu),s=t.length-e,o=s>0&&a`<button type="button" onClick=${()=>n(e+5*Xu)}>
      Show earlier steps (${$(s)})
    </button>`;return[t.slice(-e).reverse(),o]}var ry=[["new","input_tokens"],["new","cache_write_tokens"],["cached","cache_read_tokens"],["out","output_tokens"]];function Lo({usage:t,most:e}){let n=s=>`${e===0?0:t[s]/e*100}%`;return a`<span class="usage-bar" aria-hidden="true">
    ${ry.map(([s,o])=>a`<span key=${o} class=${s} style=${{width:n(o)}}></span>`)}
  </span>`}function Io(){return a`<span class="legend">
    <span><span class="key"></span> new input</span> <span><span class="key cached"></span> cached</span>${" "}
    <span><span class="key out"></span> output</span>
  </span>`}var ay={ready:void 0,draining:"waiting",lost:"failed"};function ed(){if(!ds())return null;let{items:t,waiting:e}=us.value;return a`<section aria-labelledby="nodes">
    <h2 id="nodes">Nodes</h2>
    ${e>0&&a`<p class="dim">${$(e)} sessions wait for a worker.</p>`}
    <${et} name="Nodes">
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
        ${t.map(n=>a`<${ly} key=${n.id} node=${n} />`)}
      </tbody>
    <//>
  </section>`}function ly({node:t}){return a`<tr>
    <th scope="row">${Ar(t.id)}</th>
    <td>${t.role}</td>
    <td><${W} kind=${ay[t.status]}>${t.status}<//></td>
    <td class="number">${$(t.sessions)}</td>
    <td class="number">${$(t.slots)}</td>
    <td>${t.version}</td>
    <td><${he} time=${t.seen_at} /></td>
  </tr>`}function td({state:t,session:e}){return v(()=>{Oo().catch(()=>{})},[t,e.node]),v(()=>{ds()&&E(b(t.id)).then(({node:n})=>t.update({node:n})).catch(()=>{})},[t,t.runs.value,e.status,e.steps,ds()]),!e.node||!ds()?null:a`<span class="dim node" title="Node ${e.node}">on ${Ar(e.node)}</span>`}var nd={name:"",value:""};function sd({sessionId:t,onClose:e}){let{items:n,problem:s,load:o}=cy(t),[i,r]=y(nd),[l,c]=y(null),u=w(null),d=h=>{r({name:h,value:""}),u.current.querySelector("input[type=password]").focus()},f=async()=>{await we(b(t,"secrets",l)),await o()};return a`<${ee} title="Secrets" onClose=${e}>
    <p class="dim">
      Commands get them as environment variables, from the next step on. Values are never shown again; in outputs they
      are replaced by <code>[secret NAME]</code>. Forks don't get them.
    </p>
    ${s&&a`<${F} problem=${s} onRetry=${o} />`}
    ${n?.length===0&&a`<p>No secrets yet.</p>`}
    ${n?.length>0&&a`<ul class="secret-list" aria-label="Secrets">
      ${n.map(h=>a`<${uy} key=${h.name} item=${h} onReplace=${d} onDelete=${c} />`)}
    </ul>`}
    <div ref=${u}>
      <${dy} ...${{sessionId:t,values:i,setValues:r,items:n??[],onSaved:o}} />
    </div>
    <footer><button type="button" onClick=${e}>Done</button></footer>
    ${l&&a`<${Te}
      title="Delete secret?"
      text="Commands no longer get ${l}, and its value is no longer replaced in new outputs."
      verb="Delete"
      onConfirm=${f}
      onClose=${()=>c(null)}
    />`}
  <//>`}function cy(t){let[e,n]=y(null),[s,o]=y(null),i=async()=>{try{n((await E(b(t,"secrets"))).items),o(null)}catch(r){o(r)}};return v(()=>{i()},[t]),{items:e,problem:s,load:i}}function uy({item:{name:t,created_at:e,updated_at:n},onReplace:s,onDelete:o}){let i=n===e?"added":"replaced";return a`<li>
    <code>${t}</code>
    <span class="dim" title=${`added ${pe(e)}`}>${i} <${he} time=${n} /></span>
    <button type="button" aria-label=${`Replace ${t}`} onClick=${()=>s(t)}>Replace</button>
    <button type="button" class="danger" aria-label=${`Delete ${t}`} onClick=${()=>o(t)}>Delete</button>
  </li>`}function dy({sessionId:t,values:e,setValues:n,items:s,onSaved:o}){let[i,r]=y({}),l=s.some(({name:d})=>d===e.name.trim());async function c(){let d=e.name.trim(),f={name:nr(d),value:sr(e.value)};if(f.name||f.value)return r(f);try{await Je("PUT",b(t,"secrets",d),{body:{value:e.value}})}catch(h){let[p]=h.body.errors??[];return r({[p?.field.startsWith("value")?"value":"name"]:p?.message??h.message})}return r({}),n(nd),o()}let u=d=>n({...e,...d});return a`<${G.Provider} value=${{values:e,change:u,errors:i}}>
    <div class="secret-row" role="group" aria-label=${l?"Replace a secret":"Add a secret"}>
      <${_r} />
      <${br} />
      <${C} onClick=${c}>${l?"Replace":"Add"}<//>
    </div>
  <//>`}var Rr={maxSteps:"max_steps",maxSeconds:"max_seconds",maxCost:"max_cost_usd",maxTokens:"max_tokens"};function id({model:t,limits:e,approval:{policy:n,timeout_s:s}}){let o=typeof n=="object"?n:{tools:[],commands:[]};return{model:t,...Object.fromEntries(Object.entries(Rr).map(([i,r])=>[i,od(e[r])])),approval:typeof n=="object"?"some":n,tools:o.tools,commands:o.commands.join(`
`),timeout:od(s)}}var od=t=>t==null?"":String(t);function rd(t,e){let n={},s={};t.model.trim()!==e.model&&(s.model=t.model.trim()),t.model.trim()||(n.model="Enter the model name as provider/model.");let o=py(t,e,n);return Object.keys(o).length&&(s.limits=o),fy(t,e,["approval","tools","commands","timeout"])&&(s.approval=hy(t,n)),{body:s,errors:n}}var fy=(t,e,n)=>n.some(s=>JSON.stringify(t[s])!==JSON.stringify(e[s]));function py(t,e,n){let s=Object.keys(Rr).filter(o=>t[o].trim()!==e[o]);return Object.fromEntries(s.map(o=>[Rr[o],ad(t,o,n)]))}function hy(t,e){let n=t.commands.split(`
`).filter(i=>i.trim()),s=ad(t,"timeout",e);return{policy:t.approval==="some"?{tools:t.tools,commands:n}:t.approval,timeout_s:s}}function ad(t,e,n){let s=t[e].trim().replaceAll(",","");if(s==="")return null;let o=Number(s);return Number.isFinite(o)||(n[e]="Enter a number."),o}function ld({session:t,onClose:e}){let[n]=y(()=>id(t)),[s,o]=y(n),[{errors:i,rest:r},l]=y({errors:{},rest:[]});async function c(){let{body:d,errors:f}=rd(s,n);if(l({errors:f,rest:[]}),!(Object.keys(f).length>0))try{Object.keys(d).length>0&&await Re(b(t.id),d),e()}catch(h){l(Ys(h))}}let u=d=>o({...s,...d});return a`<${ee} title="Session settings" onClose=${e}>
    <${G.Provider} value=${{values:s,change:u,errors:i}}>
      <p class="dim">Changes take effect at the next step.</p>
      <${my} />
      <${go} />
      <${$y} />
    <//>
    ${r.length>0&&a`<div class="failure" role="alert">${r.map(d=>a`<p key=${d}>${d}</p>`)}</div>`}
    <footer>
      <button type="button" onClick=${e}>Cancel</button>
      <${C} kind="primary" onClick=${c}>Save<//>
    </footer>
  <//>`}function my(){let{values:t}=z(G),e=L();v(()=>{un().catch(()=>{})},[]);let n=Se.value??[],s=n.find(({name:i})=>i===t.model),o=s&&!s.key_present?"The server has no key for this model's provider.":void 0;return a`<${ye}
      name="model"
      label="Model"
      help=${o}
      list=${e}
      autocomplete="off"
      autocapitalize="none"
      spellcheck="false"
    />
    <datalist id=${e}>
      ${n.map(({name:i,key_present:r})=>a`<option key=${i} value=${i}>${r?"":"no key"}</option>`)}
    </datalist>`}function $y(){return a`<fieldset>
    <legend>Limits</legend>
    <p class="help before-fields">A run stops at a limit and can be resumed. Leave a field empty for no limit.</p>
    <div class="fields">
      <${Pe} name="maxSteps" label="Max steps per run" placeholder="no limit" />
      <${Pe} name="maxSeconds" label="Max seconds per run" placeholder="no limit" />
      <${Pe} name="maxCost" label="Max total cost ($)" placeholder="no limit" />
      <${Pe} name="maxTokens" label="Max total tokens" placeholder="no limit" />
    </div>
  </fieldset>`}var gy=500;function ud({state:t,session:e}){let[n,s]=y(null),o=()=>s(null),i=[{label:"Export as OpenAI messages",onClick:()=>cd(t.id,"openai")},{label:"Export as Anthropic messages",onClick:()=>cd(t.id,"anthropic")}],r=[{label:"Rename",onClick:()=>s("rename")},{label:"Settings",onClick:()=>s("settings")},{label:"Secrets",onClick:()=>s("secrets")},{label:"Fork",onClick:()=>s("fork")},...i,{label:"Delete",kind:"danger",onClick:()=>s("delete")}],l=()=>{P("Session deleted."),se("#/")};return a`<${$n} label="Actions" items=${e.kind==="subagent"?i:r} />
    ${n==="settings"&&a`<${ld} session=${e} onClose=${o} />`}
    ${n==="secrets"&&a`<${sd} sessionId=${t.id} onClose=${o} />`}
    <${_o} name=${n} session=${e} onClose=${o} onDeleted=${l} />`}async function cd(t,e){try{$u(`${t}.${e}.json`,await vy(t,e),"application/json")}catch(n){re(n)}}async function vy(t,e){let n=[],s=null;do{let o=new URLSearchParams({format:e,limit:gy});s!==null&&o.set("after",s);let i=await E(`${b(t,"messages")}?${o}`);n.push(...i.items),s=i.next_cursor}while(s!==null);return JSON.stringify({format:e,messages:n},null,2)}function Ot({tokens_before:t,tokens_after:e}){return e==null||!t?null:(t-e)/t}function dd(t,e){let n=new Map(t.map(s=>[s.message_id,s]));for(let[s,o]of e){let i=n.get(s);(!i||i.finish_reason===null)&&n.set(s,{...yy,...i,..._y(o)})}return[...n.values()].sort((s,o)=>s.step-o.step||s.attempt-o.attempt)}var fd={input_tokens:0,cache_read_tokens:0,cache_write_tokens:0,output_tokens:0,reasoning_tokens:0,cost_usd:0},yy={finish_reason:null,usage:fd,compaction_round:null,duration_ms:null};function _y({finished_at:t,...e}){return!t||!e.started_at?e:{...e,duration_ms:Date.parse(t)-Date.parse(e.started_at)}}function pd(t){return t.filter(({step:e},n)=>t[n+1]?.step!==e)}function hd(t,e,n){let s=new Map(t.map(i=>[i.round,i])),o=i=>s.set(i.round,{...wy,...s.get(i.round),...by(i)});for(let i of e)s.get(i.round)?.status!==i.status&&o(i);for(let i of n.values())s.has(i.round)||o({...i,status:"running"});return[...s.values()].sort((i,r)=>i.round-r.round)}function by(t){return Object.fromEntries(Object.entries(t).filter(([,e])=>e!=null))}var wy={rung:null,first_message_id:null,last_message_id:null,messages_compacted:0,outputs_pruned:0,tokens_after:null,summary:null,error:null,usage:fd,duration_ms:0};function md(t,e,n){let o=[...e.filter(({status:r})=>r==="completed"||r==="reverted").map(r=>xy(t,r)),...n.map(r=>ky(t,r))];o.sort((r,l)=>r.place-l.place||r.time-l.time);let i=Map.groupBy(o,({place:r})=>r);for(let[r,l]of i){let c=r===0?(t[0]?.step??1)-1:t[r-1].step;l.forEach((u,d)=>u.x=c+(d+1)/(l.length+1))}return o}function xy(t,e){let n=Date.parse(e.created_at)+e.duration_ms;return{...$d("round",e),key:`round-${e.round}`,time:n,place:Sy(t,e,n)}}function ky(t,e){let n=Date.parse(e.at);return{...$d("prune",e),key:`prune-${e.seq}`,time:n,place:gd(t,n)}}function $d(t,e){return{kind:t,item:e,before:e.tokens_before,after:e.tokens_after}}function Sy(t,{round:e,status:n},s){let o=r=>n==="reverted"?r.compaction_round===e:r.compaction_round>=e,i=t.findIndex(r=>r.compaction_round!==null&&o(r));return i>=0?i:gd(t,s)}function gd(t,e){let n=0,s=t.length;for(;n<s;){let o=n+s>>1;Date.parse(t[o].started_at)<e?n=o+1:s=o}return n}function vd(t,e){let n=t.map(o=>({x:o.step,tokens:o.context.tokens,step:o}));for(let o of e)n.push({x:o.x,tokens:o.before,mark:o,edge:0},{x:o.x,tokens:o.after,mark:o,edge:1});n.sort((o,i)=>o.x-i.x||(o.edge??0)-(i.edge??0));let s=t[0]?.context??{usable:null,limit:null};for(let o of n)s=o.step?.context??s,o.usable=s.usable||null,o.limit=s.limit||null;return n}var yd=500,Ey=600,Cy="prune.completed,compaction.failed,compaction.reverted",Lr=new WeakMap;function vn(t){return Lr.has(t)||Lr.set(t,new Ir(t)),Lr.get(t)}var Ir=class{progress=g(0);problem=g(null);open=g(new Set);selected=g(null);unmade=g(null);#e;#t=g(new Map);#n=g([]);#s=g([]);#o=null;#i=0;#a=null;#r=Promise.resolve();#c=null;constructor(e){this.#e=e,this.attempts=ue(()=>dd([...this.#t.value.values()],e.steps.value)),this.steps=ue(()=>pd(this.attempts.value)),this.rounds=ue(()=>hd(this.#n.value,e.rounds.value,e.working.value)),this.prunes=ue(()=>Oy(this.#l("prune.completed"),e.prunes.value)),this.failures=ue(()=>Map.groupBy(this.#l("compaction.failed"),({round:n})=>n)),this.reverts=ue(()=>new Map(this.#l("compaction.reverted").map(n=>[n.round,n]))),this.marks=ue(()=>md(this.steps.value,this.rounds.value,this.prunes.value)),this.points=ue(()=>vd(this.steps.value,this.marks.value)),this.latest=ue(()=>this.rounds.value.findLast(({status:n})=>n==="completed")?.round??null),this.version=ue(()=>this.#d())}get id(){return this.#e.id}watch(){let e=Y(()=>{let n=this.#e.follower.value;this.version.value,Ae(()=>this.#f(n))});return()=>{e(),clearTimeout(this.#a),this.#a=null}}isOpen(e){return this.open.value.has(e)}toggle(e,n=!this.open.value.has(e)){let s=new Set(this.open.value);n?s.add(e):s.delete(e),this.open.value=s}select(e){this.selected.value={key:e}}retry(){return this.#p()}#l(e){return this.#s.value.filter(n=>n.type===e).map(({seq:n,data:s})=>({...s,seq:n}))}#d(){let{stepNews:e,rounds:n,working:s,failedRungs:o,prunes:i}=this.#e,l=`${n.value.map(({round:c,status:u})=>`${c}${u}`).join()} ${[...s.value.keys()].join()} ${o.value}`;return`${e.value} ${l} ${i.value.at(-1)?.seq}`}#f(e){if(e!==this.#c){let s=this.#c===null;this.#c=e,s||this.#u()}let n=this.progress.value===0?0:Ey;this.#a??=setTimeout(()=>{this.#a=null,this.#p()},n)}#u(){D(()=>{this.#t.value=new Map,this.#n.value=[],this.#s.value=[],this.progress.value=0}),this.#o=null,this.#i=0}#p(){return this.#r=this.#r.then(()=>this.#h()),this.#r}async#h(){try{await Promise.all([this.#$(),this.#m(),this.#v()]),this.problem.value=null}catch(e){this.problem.value=e}}async#m(){this.#n.value=(await E(b(this.id,"compactions"))).items}async#$(){for(;;){let e=this.#o===null?"":`&after=${this.#o}`,n=await E(`${b(this.id,"steps")}?limit=${yd}${e}`),s=new Map(this.#t.value);for(let o of n.items)s.set(o.message_id,o);if(D(()=>{this.#t.value=s,this.progress.value!==null&&(this.progress.value=n.next_cursor===null?null:s.size)}),n.next_cursor===null)return this.#g(n.items);this.#o=n.next_cursor}}#g(e){let n=({message_id:r})=>this.#e.transcript.message(r)?.peek().seq,s=e.findIndex(({duration_ms:r},l)=>r===null&&l>=e.length-5),o=e[(s<0?e.length:s)-2],i=o&&n(o);i!==void 0&&(this.#o=String(i))}async#v(){for(;;){let e=`after=${this.#i}&limit=${yd}&types=${Cy}`,n=await E(`${b(this.id,"log")}?${e}`);if(n.items.length&&(this.#s.value=[...this.#s.value,...n.items]),this.#i=n.next_cursor??Math.max(n.last_seq,this.#i),n.next_cursor===null)return}}};function Oy(t,e){return[...new Map([...e,...t].map(s=>[s.seq,s])).values()].sort((s,o)=>s.seq-o.seq)}var Ty=1e3,My=100,wd=["mcp.ready","mcp.failed"],xd=["subagent.started","subagent.finished"],kd=["command.started","command.ended"],_d=["session.running","session.idle","checkpoint.failed",...wd,...xd,...kd],Nr=new WeakMap;function yn(t){return Nr.has(t)||Nr.set(t,new Pr(t)),Nr.get(t)}var Pr=class{items=g([]);notes=g([]);run=g(null);#e;#t=new Map;#n=1/0;#s=-1/0;#o=Promise.resolve();#i=null;#a=null;#r=!1;constructor(e){this.#e=e}watch(){this.#r=!0;let e=Y(()=>{let n=this.#e.follower.value,s=this.#e.log.value.filter(({type:o})=>_d.includes(o));Ae(()=>{this.#c(n),this.#u(s)})});return()=>{this.#r=!1,e()}}#c(e){this.#a!==null&&e!==this.#a&&(this.#t=new Map,this.items.value=[],this.notes.value=[],this.run.value=null,[this.#n,this.#s]=[1/0,-1/0],this.#i&&this.cover(...this.#i)),this.#a=e}cover(e,n){return this.#i=[e,n],this.#l(e,n)}#l(e,n){let s=()=>this.#r&&this.#l(e,n),o=i=>{i.mayPass&&setTimeout(s,Ty)};return this.#o=this.#o.then(()=>this.#d(e,n)).catch(o),this.#o}async#d(e,n){if(n<this.#n||e>this.#s){this.#n=await this.#f(n,e),this.#s=n;return}n>this.#s&&(await this.#f(n,this.#s),this.#s=n),e<this.#n&&(this.#n=await this.#f(this.#n,e))}async#f(e,n){let s=e===1/0?null:e+1;for(;;){let o=s===null?"":`&after=${s}`,i=`types=${_d.join()}&order=desc&limit=${My}${o}`,r=await E(`${b(this.#e.id,"log")}?${i}`);if(this.#u(r.items),r.next_cursor===null)return 0;s=r.next_cursor;let l=r.items.at(-1);if(l?.seq<=n&&Dr(l))return l.seq}}#u(e){let n=e.filter(({seq:o})=>!this.#t.has(o));if(n.length===0)return;for(let o of n)this.#t.set(o.seq,o);let s=[...this.#t.values()].sort((o,i)=>o.seq-i.seq);D(()=>{this.items.value=Ly(s),this.notes.value=[...Ay(s),...bd(s,xd,"subagent_id"),...bd(s,kd,"command_id")],this.run.value=Ry(s)})}};function Ay(t){let e=new Map,n=[];for(let{seq:s,type:o,data:i}of t){if(!wd.includes(o))continue;let r=JSON.stringify([o,i.tools,i.left_out,i.code,i.detail]);e.get(i.server)!==r&&n.push({...i,seq:s,type:o}),e.set(i.server,r)}return n}function bd(t,[e,n],s){let o=new Map(t.filter(({type:r})=>r===n).map(({data:r})=>[r[s],r]));return t.filter(({type:r})=>r===e).map(({seq:r,type:l,data:c})=>({...c,seq:r,type:l,end:o.get(c[s])??null}))}var Dr=({type:t,data:e})=>t==="session.running"&&e.trigger!=="recovery";function Ry(t){let e=t.findLast(Dr);if(!e)return null;let n=t.findLast(({type:o,seq:i})=>o==="session.idle"&&i>e.seq);return{...{startedAt:Date.parse(e.data.at),endedAt:n?Date.parse(n.data.at):null},steps:n?.data.steps??null}}function Sd(t,e){if(t.steps!==null)return t.steps;let n=e.filter(({started_at:s})=>Date.parse(s)>=t.startedAt);return new Set(n.map(({step:s})=>s)).size}function Ly(t){let e=[],n=null,s=null;for(let o of t){let{type:i,seq:r,data:l}=o;Dr(o)?[n,s]=[l.at,null]:i==="checkpoint.failed"?s=l:i==="session.idle"&&(e.push({...l,seq:r,startedAt:n,failure:s}),[n,s]=[null,null])}return e}function Ed({startedAt:t,at:e},n){if(t===null)return{begin:null,end:null};let[s,o]=[Date.parse(t),Date.parse(e)+Iy],i=n.filter(c=>Ny(Date.parse(c.at),s,o)),r=i.findLast(({reason:c})=>c==="run_ended");return{begin:i.findLast(({reason:c,run:u})=>c==="run_started"&&(!r||u===r.run))?.id??null,end:r?.id??null}}var Iy=50,Ny=(t,e,n)=>t>=e&&t<=n;function No(t){let e=w(null),n=w(t);n.current=t;let s=()=>{clearTimeout(e.current),e.current=null};return v(()=>s,[]),o=>{e.current??=setTimeout(()=>{e.current=null,n.current()},o)}}var Py=400;function Cd({state:t,session:e}){Fy(t,e);let n=yn(t);v(()=>n.watch(),[n]),v(()=>{n.cover(1/0,1/0)},[n]);let{steps:s,usage:o}=e;return s===0&&e.status==="idle"?null:a`<span class="facts dim numbers">
    <span title="Steps of all runs">${$(s)} ${s===1?"step":"steps"}</span>
    <${Dy} run=${n.run.value} />
    ${o.cost_usd>0&&a`<span title="Cost of all runs">${te(o.cost_usd)}</span>`}
  </span>`}function Dy({run:t}){if(t===null)return null;let e=t.endedAt===null,n=Math.max(0,(t.endedAt??Le.value)-t.startedAt),s=U(e?Math.floor(n/1e3)*1e3:n);return a`<span title=${e?"Time of this run":"Time of the last run"}>${s}</span>`}function Fy(t,{status:e}){let{version:n}=vn(t),s=w(!0),o=async()=>{let{usage:r}=await E(b(t.id));t.update({usage:r})},i=No(()=>o().catch(()=>{}));v(()=>{s.current||i(Py),s.current=!1},[t,n.value,e])}function Od(t){let{id:e,status:n,outcome:s}=t??{};v(()=>{if(n!=="idle"||s===null)return;let o=()=>{document.visibilityState==="visible"&&(document.removeEventListener("visibilitychange",o),Je("POST",b(e,"seen")).then(()=>A.seen(e),()=>{}))};return document.addEventListener("visibilitychange",o),o(),()=>document.removeEventListener("visibilitychange",o)},[e,n,s])}function Td(t,{call_id:e,message_id:n,name:s,arguments:o,at:i}){let r={call_id:e,message_id:n,name:s,arguments:o,requested_at:i,expires_at:null};t.clientCalls.value=[...Ad(t,e),r],t.update({status:"awaiting_client"}),Wy(t).catch(()=>{})}function Po(t,e){t.clientCalls.value.some(({call_id:s})=>s===e)&&(t.clientCalls.value=Ad(t,e))}function Md(t,{status:e}){e!=="awaiting_client"&&t.clientCalls.value.length&&(t.clientCalls.value=[])}async function Wy(t){let{items:e}=await E(Fr(t.id)),n=new Map(e.map(({call_id:o,expires_at:i})=>[o,i])),s=o=>({...o,expires_at:n.get(o.call_id)??o.expires_at});t.clientCalls.value=t.clientCalls.value.map(s)}var Fr=t=>`${b(t,"tool-calls")}?status=pending`,Ad=(t,e)=>t.clientCalls.value.filter(({call_id:n})=>n!==e);async function Rd(t){for(let e="";;){let n=`${b(t,"log")}?types=plan.updated&order=desc&limit=1${e}`,{items:s,next_cursor:o}=await E(n);if(s.length)return s[0].data.items;if(o===null)return null;e=`&after=${encodeURIComponent(o)}`}}var By=new URLSearchParams({types:"source.started,source.completed,source.failed",limit:200}),qy={"source.started":({url:t,ref:e})=>({status:"cloning",url:t,ref:e}),"source.completed":({commit:t},e)=>({...e,status:"cloned",commit:t}),"source.failed":({code:t,detail:e},n)=>({...n,status:"failed",code:t,detail:e})},Wr=new WeakMap;function Br(t){return Wr.has(t)||Wr.set(t,g(null)),Wr.get(t)}function qr(t,{seq:e,type:n,data:s}){let o=Br(t);e>(o.value?.seq??0)&&(o.value={...qy[n](s,o.value),seq:e})}async function Ld(t){let{items:e}=await E(`${b(t.id,"log")}?${By}`);for(let n of e)qr(t,n)}var Pd=500;function Dd(t,{seq:e,type:n,data:s}){jy[n]?.(t,s,e)}var Ut=(t,e,n)=>t.filter(s=>s[e]!==n);function Ur(t){return(e,n)=>{e.transcript.delta(t,n)||e.again()}}function Id(t){return(e,{message_id:n,part_id:s,index:o,text:i,interrupted:r})=>e.transcript.partCompleted({id:s,index:o,type:t,text:i,interrupted:r},n)}function Uy(t,e){let n=new Map(t.working.value);n.set(e.round,{...n.get(e.round),...e}),t.setWorking(n,jr(t)||!e.background)}var jr=t=>t.session.value?.compaction.in_progress??!1;function zy(t,{round:e,...n}){let s=t.working.value.get(e);if(!s)return;let o=new Map(t.working.value).set(e,{...s,retrying:Fd(n)});t.setWorking(o,jr(t))}var Fd=({attempt:t,at:e,delay_ms:n,code:s,detail:o})=>({attempt:t,until:Date.parse(e)+n,code:s,detail:o});function Wd(t,e){let n=new Map(t.working.value),s=n.get(e);n.delete(e);let o=[...n.values()].some(({background:i})=>!i);return t.setWorking(n,jr(t)&&o),s}function Bd(t,e){let n=Ut(t.rounds.value,"round",e.round);t.rounds.value=[...n,e].sort((s,o)=>s.round-o.round)}function Do(t){return(e,{session_id:n,at:s,...o})=>{let i=Wd(e,o.round),r=e.rounds.value.find(({round:u})=>u===o.round),c=(t==="failed"?void 0:o.usage)??r?.usage??i?.usage;Bd(e,{created_at:s,...i,...r,...o,usage:c,status:t})}}function Nd(t,{step:e,attempt:n,message_id:s,context:o},i){let r=new Map(t.steps.value);r.set(s,{...r.get(s),step:e,attempt:n,message_id:s,context:o,...i}),r.size>Pd&&r.delete(r.keys().next().value),t.steps.value=r,t.stepNews.value+=1}var zr=t=>(e,n,s)=>qr(e,{seq:s,type:t,data:n}),jy={"session.created":(t,{session:e})=>t.update(e),"session.updated":(t,{session:e})=>{t.update(e),Md(t,e)},"session.deleted":t=>t.deleted.value=!0,"session.running":t=>{t.runs.value+=1,t.update({status:"running",outcome:null,error:null})},"session.idle":(t,{outcome:e,error:n,answer:s,output:o})=>{t.retrying.value=null,t.clientCalls.value=[],t.update({status:"idle",outcome:e,error:n??null,answer:s??null,output:o??null})},"source.started":zr("source.started"),"source.completed":zr("source.completed"),"source.failed":zr("source.failed"),"message.queued":(t,{message_id:e,mode:n,content:s,position:o},i)=>{let r=Ut(t.queue.value,"id",e);r.splice(o-1,0,{id:e,mode:n,content:s,position:o,status:"pending",seq:i}),t.setQueue(r)},"message.edited":(t,{message_id:e,mode:n,content:s,position:o})=>{let i=t.queue.value.find(c=>c.id===e);if(!i)return;let r=Ut(t.queue.value,"id",e),l={...i,mode:n,content:s??i.content};r.splice((o??i.position)-1,0,l),t.setQueue(r)},"message.withdrawn":(t,{message_id:e})=>t.setQueue(Ut(t.queue.value,"id",e)),"message.dequeued":(t,{message_id:e})=>t.setQueue(Ut(t.queue.value,"id",e)),"message.created":(t,{message:e})=>t.transcript.created(e),"step.started":(t,e,n)=>{t.retrying.value=null,t.transcript.stepStarted(n,e),t.update({context:e.context,status:"running"}),Nd(t,e,{started_at:e.at})},"step.retrying":(t,e)=>{t.transcript.voided(e),t.retrying.value=Fd(e)},"step.finished":(t,e)=>{t.transcript.stepFinished(e),t.update({context:e.context,steps:Math.max(t.session.value?.steps??0,e.step)});let{finish_reason:n,usage:s,at:o}=e;Nd(t,e,{finish_reason:n,usage:s,finished_at:o})},"text.delta":Ur("text"),"reasoning.delta":Ur("reasoning"),"tool.arguments":Ur("tool_call"),"text.completed":Id("text"),"reasoning.completed":Id("reasoning"),"tool.call":(t,e)=>{let{message_id:n,part_id:s,index:o,call_id:i,name:r,arguments:l,waits_for_client:c}=e,u={id:s,index:o,type:"tool_call",call_id:i,name:r,arguments:l};t.transcript.partCompleted(u,n),c&&Td(t,e)},"tool.output":(t,e)=>t.transcript.output(e),"tool.result":(t,{session_id:e,at:n,message_id:s,part_id:o,...i},r)=>{t.transcript.resulted({...i,id:o,type:"tool_result"},s,r,n),Po(t,i.call_id)},"approval.requested":(t,{session_id:e,at:n,...s})=>{let o=Ut(t.approvals.value,"call_id",s.call_id);t.approvals.value=[...o,{...s,requested_at:n}],t.update({status:"awaiting_approval"})},"approval.resolved":(t,{call_id:e})=>{t.approvals.value=Ut(t.approvals.value,"call_id",e),t.approvals.value.length===0&&t.update({status:"running"})},"plan.updated":(t,{items:e})=>t.plan.value=e,"prune.completed":(t,e,n)=>{t.transcript.pruned(e.call_ids,e.at),!t.prunes.value.some(s=>s.seq===n)&&(t.prunes.value=[...t.prunes.value,{...e,seq:n}].slice(-Pd))},"compaction.started":(t,{session_id:e,at:n,...s})=>Uy(t,{...s,created_at:n}),"compaction.completed":(t,{session_id:e,at:n,...s})=>{Wd(t,s.round),Bd(t,s),t.transcript.loadMarks()},"compaction.failed":(t,e)=>{t.failedRungs.value+=1,e.next||Do("failed")(t,e)},"compaction.retrying":zy,"compaction.cancelled":Do("cancelled"),"compaction.discarded":Do("discarded"),"compaction.reverted":(t,e)=>{Do("reverted")(t,e),t.transcript.loadMarks()}};var Fo=class{order=g([]);first=1/0;last=0;#e=new Map;#t=new Map;message(e){return this.#e.get(e)}result(e){let n=this.#t.get(e);return n||(n=g(null),this.#t.set(e,n)),n}resultNow(e){return this.#t.get(e)?.peek()??null}add(e){let n=[];for(let i of e)this.first=Math.min(this.first,i.seq),this.last=Math.max(this.last,i.seq),!i.voided_at&&!this.#n(i)&&n.push(i.id);if(n.length===0)return;let s=i=>this.#e.get(i).peek().seq,o=[...this.order.peek(),...n];this.order.value=o.sort((i,r)=>s(i)-s(r))}#n(e){for(let s of e.parts)s.type==="tool_result"&&(this.result(s.call_id).value=qd(s,e.parts));let n=this.#e.get(e.id);return n?n.value=e:this.#e.set(e.id,g(e)),n!==void 0}change(e,n){let s=this.#e.get(e);s&&(s.value=n(s.peek()))}putResult(e){let n=this.#t.get(e.call_id);n&&(n.value=e)}changeResult(e,n){let s=this.#t.get(e);s?.peek()&&(s.value=n(s.peek()))}putMarks({id:e,round:n,parts:s}){this.#e.get(e)?.peek().round!==n&&this.change(e,i=>({...i,round:n}));for(let i of s.filter(({type:r})=>r==="tool_result")){let{compacted_at:r,original_tokens:l,images:c}=qd(i,s);this.changeResult(i.call_id,u=>({...u,compacted_at:r,original_tokens:l,images:c}))}let o=new Map(s.filter(({type:i})=>i==="image").map(i=>[i.id,i]));o.size!==0&&this.change(e,i=>({...i,parts:i.parts.map(r=>o.get(r.id)??r)}))}remove(e){this.#e.has(e)&&(this.#o(e),this.order.value=this.order.peek().filter(n=>n!==e))}replace(e){let n=new Set(e.filter(({voided_at:o})=>!o).map(({id:o})=>o)),s=this.order.peek();D(()=>{for(let o of s)n.has(o)||this.#o(o);for(let o of this.#t.values())o.value=null;this.order.value=s.filter(o=>n.has(o)),this.first=1/0,this.last=0,this.add(e)})}keepFirst(e){let n=this.order.peek();return n.length<=e?!1:(this.#s(n.slice(0,e),n.slice(e)),this.last=this.#e.get(n[e-1]).peek().seq,!0)}keepLast(e){let n=this.order.peek(),s=i=>this.#e.get(n[i]).peek(),o=Math.max(0,n.length-e);for(;o>0&&s(o).role==="tool";)o-=1;return o===0?!1:(this.first=s(o).seq,this.#s(n.slice(o),n.slice(0,o)),!0)}#s(e,n){for(let s of n)this.#o(s);this.order.value=e}#o(e){for(let n of this.#e.get(e).peek().parts)n.type==="tool_call"&&this.#t.delete(n.call_id);this.#e.delete(e)}};function qd(t,e){return{...t,images:e.filter(({type:n,of_call:s})=>n==="image"&&s===t.call_id)}}function Hr(t,e,n,s){return{id:t,seq:e,role:n,parts:[],tokens:0,model:null,finish_reason:null,error:null,is_summary:!1,round:null,voided_at:null,created_at:s}}function Wo(t,e){return[...t.filter(({id:n})=>n!==e.id),e].sort((n,s)=>n.index-s.index)}var Hy=200,Ud=500,zd=250,Ky=40,Bo=class{#e;constructor(e){this.#e=e}async after(e,n=Hy){let s=await this.#s(e,n);return{items:s.items,lastSeq:s.last_seq,more:s.next_cursor!==null}}async around(e){let n=Math.max(0,e-zd);return{...await this.after(n),hasEarlier:n>0}}async newest(e){return this.#t(e+1,1/0)}async before(e){return this.#t(e,e)}async message(e){return(await this.#s(e-1,1)).items.find(n=>n.seq===e)??null}async*all(e,n){for(let s=e-1;s!==null&&s<n;){let o=await this.#s(s,Ud);yield o.items,s=o.next_cursor===null?null:Number(o.next_cursor)}}async#t(e,n){let s=[],o=null,i=zd;for(;;){let r=Math.max(0,e-1-i),l=await this.#n(r,n);if(s=[...l.items,...s],o??=l.lastSeq,s.length>=Ky||r===0)return{items:s,lastSeq:o,more:r>0};e=n=r+1,i*=4}}async#n(e,n){let s=[],o=null;for(let i=e;i!==null;){let r=await this.#s(i,Ud);o??=r.last_seq;let l=r.items.filter(({seq:c})=>c<n);s.push(...l),i=l.length<r.items.length?null:r.next_cursor}return{items:s,lastSeq:o}}#s(e,n){return E(`${b(this.#e,"messages")}?after=${e}&limit=${n}`)}};var Gy=300,qo=class{#e;#t;#n=null;constructor(e,n){this.#e=e,this.#t=n}put(e,n){for(let s of e)this.#e.changeResult(s,o=>({...o,compacted_at:o.compacted_at??n}))}loadSoon(){clearTimeout(this.#n),this.#n=setTimeout(()=>this.#s().catch(()=>{}),Gy)}async#s(){let{first:e,last:n}=this.#e;for await(let s of this.#t.all(e,n))D(()=>{for(let o of s)this.#e.putMarks(o)})}};var ps=class{#e=new Map;#t;constructor(e=()=>{}){this.#t=e}of(e){return this.#e.has(e)||this.#e.set(e,g(!1)),this.#e.get(e)}toggle(e){this.#t();let n=this.of(e);n.value=!n.peek()}};var Uo=class{left=g(null);folds=new ps(()=>this.follow(!1));planFolds=new ps;place=null;#e;constructor(e){this.#e=e}get isFollowed(){return this.left.peek()===null}follow(e){this.left.value=e?null:this.left.peek()??this.#e.peek()}};var Vy=/[\uD800-\uDBFF][\uDC00-\uDFFF]/g;function Kr(t){return t.length-(t.match(Vy)?.length??0)}function jd(t,e){if(e>=t.length)return t;let n=0;for(let s=0;s<e&&n<t.length;s+=1)n+=t.codePointAt(n)>65535?2:1;return t.slice(0,n)}var Gr=class{text="";points=0;put(e,n){return e>this.points?!1:(e<this.points&&(this.text=jd(this.text,e),this.points=e),this.text+=n,this.points+=Kr(n),!0)}},Hd=64*1024,Vr=class{text="";#e=0;put(e,n){let s=e===this.#e;this.#e=e+Kr(n);let o=s?this.text+n:n;this.text=o.length>2*Hd?o.slice(-Hd):o}},zo=class{#e=new Map;#t=new Set;#n;constructor(e){this.#n=e}connected(){this.#t.clear()}get(e){return this.#e.get(e)}of(e){return[...this.#e].filter(([,n])=>n.messageId===e).map(([n])=>n)}put(e,{part_id:n,message_id:s,index:o,name:i,offset:r,text:l}){return this.#t.has(n)||(this.#e.set(n,{type:e,messageId:s,index:o,name:i,written:new Gr}),this.#t.add(n)),this.#e.get(n).written.put(r,l)?(this.#n(n),!0):!1}putOutput({call_id:e,offset:n,text:s}){let o=this.#e.get(e)??{type:"output",written:new Vr};this.#e.set(e,o),o.written.put(n,s),this.#n(e)}drop(e){this.#e.delete(e),this.#t.delete(e)}};var jo=4e3,Kd=1e3,Ho=class{hasEarlier=g(!1);hasLater=g(!1);loading=g(null);problem=g(null);arrived=g(0);reading=new Uo(this.arrived);#e=new Fo;#t;#n=new zo(e=>this.#g(e));#s=new Map;#o=new Set;#i=new Set;#a=null;#r=0;#c=0;#l=null;#d;constructor(e){this.#t=new Bo(e),this.#d=new qo(this.#e,this.#t)}get order(){return this.#e.order}message(e){return this.#e.message(e)}result(e){return this.#e.result(e)}preview(e){return this.#s.has(e)||this.#s.set(e,g("")),this.#s.get(e)}async loadNewest(e){let n=await this.#f("all",()=>this.#t.newest(e),({items:s,more:o})=>{this.#e.replace(s),this.hasEarlier.value=o,this.hasLater.value=!1});return this.#r=Math.max(this.#r,this.#e.last),n?.lastSeq??0}async followNewest(){this.hasLater.peek()&&await this.loadNewest(this.#r),this.reading.follow(!0)}async loadOldest(){await this.#f("all",()=>this.#t.after(0),({items:e,more:n})=>{this.#e.replace(e),this.hasEarlier.value=!1,this.hasLater.value=n})}async loadAround(e){let{first:n,last:s}=this.#e;e>=n&&(e<=s||!this.hasLater.value)||await this.#f("all",()=>this.#t.around(e),({items:o,more:i,hasEarlier:r})=>{this.#e.replace(o),this.hasEarlier.value=r,this.hasLater.value=i})}async loadEarlier(){!this.hasEarlier.value||this.loading.value||await this.#f("earlier",()=>this.#t.before(this.#e.first),({items:e,more:n})=>{this.#e.add(e),this.hasEarlier.value=n,this.#e.keepFirst(jo)&&(this.hasLater.value=!0)})}async loadLater(){!this.hasLater.value||this.loading.value||await this.#f("later",()=>this.#t.after(this.#e.last),({items:e,more:n})=>{this.#e.add(e),this.hasLater.value=n,this.#e.keepLast(jo)&&(this.hasEarlier.value=!0)})}async#f(e,n,s){let o=this.#c+=1;this.loading.value=e,this.problem.value=null;try{let i;do if(this.#l=[],i=await n(),o!==this.#c)return null;while(this.#l.length===Kd);return D(()=>{s(i);for(let r of this.#l)r();this.#v(i.items)}),i}catch(i){throw o===this.#c&&(this.problem.value=i),i}finally{o===this.#c&&(this.loading.value=null,this.#l=null)}}#u(e){this.#l?.length<Kd&&this.#l.push(e),D(e)}connected(){this.#n.connected()}created(e){this.#u(()=>this.#p(e))}stepStarted(e,{message_id:n,at:s}){this.#u(()=>{this.message(n)||this.#p(Hr(n,e,"assistant",s))})}#p(e){e.seq>this.#r&&(this.#r=e.seq,e.role!=="tool"&&(this.arrived.value+=1));let n=this.message(e.id)!==void 0;!n&&!this.reading.isFollowed&&this.order.peek().length>=jo&&(this.hasLater.value=!0),!(!n&&this.hasLater.value)&&(this.#e.add([e]),this.reading.isFollowed&&this.#e.keepLast(jo)&&(this.hasEarlier.value=!0))}stepFinished({message_id:e,finish_reason:n}){this.flush(),this.#u(()=>{this.#m(e);let s=n==="stop"||n==="tool_calls";this.#e.change(e,o=>({...o,parts:o.parts.filter(i=>!i.open),finish_reason:s?n:o.finish_reason})),s||this.#h(e,n)})}async#h(e,n){let s=this.message(e);if(!s)return;let o=await this.#t.message(s.peek().seq).catch(()=>null),{finish_reason:i,error:r}=o??{finish_reason:n,error:null};this.#e.change(e,l=>({...l,finish_reason:i,error:r}))}voided({message_id:e}){this.#i.add(e),this.#u(()=>{this.#m(e),this.#e.remove(e)})}#m(e){for(let n of this.#n.of(e))this.#$(n)}#$(e){this.#n.drop(e),this.#o.delete(e)}delta(e,n){if(this.#i.has(n.message_id))return!0;let s=this.message(n.message_id)?.peek();return s?.parts.find(({id:r})=>r===n.part_id)?.closed===!0||(s?.finish_reason??null)!==null||this.#n.put(e,n)}output(e){this.#e.resultNow(e.call_id)||this.#n.putOutput(e)}partCompleted(e,n){this.#$(e.id),this.#u(()=>{let s={...e,closed:!0};this.#e.change(n,o=>({...o,parts:Wo(o.parts,s)}))})}resulted({images:e,...n},s,o,i){this.#$(n.call_id),this.#s.delete(n.call_id),this.#u(()=>{let r=this.message(s)?.peek()??Hr(s,o,"tool",i);this.#e.putResult({...n,images:e}),this.#p({...r,parts:[n,...e??[]].reduce(Wo,r.parts)})})}pruned(e,n){this.#u(()=>this.#d.put(e,n)),this.loadMarks()}loadMarks(){this.#d.loadSoon()}flush(){this.#a!==null&&cancelAnimationFrame(this.#a),this.#a=null;let e=[...this.#o];this.#o.clear(),D(()=>{for(let n of e)this.#y(n)})}#g(e){this.#o.add(e),this.#a??=requestAnimationFrame(()=>this.flush())}#v(e){for(let{id:n}of e)for(let s of this.#n.of(n))this.#y(s)}#y(e){let n=this.#n.get(e);if(!n)return;let s=n.written.text;if(n.type==="output"){this.preview(e).value=s;return}let o={id:e,index:n.index,type:n.type,open:!0};Object.assign(o,n.type==="tool_call"?{name:n.name,written:s}:{text:s}),this.#e.change(n.messageId,i=>({...i,parts:Wo(i.parts,o)}))}};var Yy=2e3,Ko=class{session=g(null);queue=g([]);approvals=g([]);clientCalls=g([]);rounds=g([]);working=g(new Map);failedRungs=g(0);prunes=g([]);steps=g(new Map);stepNews=g(0);runs=g(0);plan=g(null);retrying=g(null);log=g([]);problem=g(null);deleted=g(!1);transcript;follower=g(null);#e;#t=0;#n=new on;constructor(e){this.#e=e,this.transcript=new Ho(e)}get id(){return this.#e}async open(){let e=this.#t+=1,n=()=>e===this.#t;for(this.#n.reset();n();)try{let s=await this.#s(n);n()&&this.#o(s);return}catch(s){if(!n()||(this.problem.value=s,!s.mayPass))return;await this.#n.wait(this.#n.next(s))}}close(){this.#t+=1,this.#n.end(),this.follower.value?.stop()}async reload(){this.close(),D(()=>{this.problem.value=null,this.log.value=[],this.steps.value=new Map,this.prunes.value=[],this.plan.value=null,this.retrying.value=null}),await this.open()}async#s(e){let n=d=>b(this.#e,d),s=E(b(this.#e)),[o,i,r,l,c,u]=await Promise.all([s.then(({last_seq:d})=>this.transcript.loadNewest(d)),s,E(n("queue")),E(n("approvals")),E(Fr(this.#e)),E(n("compactions"))]);return e()?(D(()=>{this.problem.value=null,this.session.value=i,this.queue.value=r.items,this.approvals.value=l.items,this.clientCalls.value=c.items,this.rounds.value=u.items.filter(({status:d})=>d!=="running"),this.working.value=new Map(u.items.filter(({status:d})=>d==="running").map(d=>[d.round,d]))}),Math.min(o,...[i,r,l,c,u].map(({last_seq:d})=>d))):null}#o(e){this.follower.value=new rn(b(this.#e,"events"),{after:e,onEvents:n=>this.#r(n),onConnected:()=>this.transcript.connected(),onLost:n=>this.#a(n)}),this.#i()}async#i(){let e=this.plan.value,n=await Rd(this.#e).catch(()=>null);n&&this.plan.value===e&&(this.plan.value=n)}#a(e){e.status===404?this.deleted.value=!0:e.status===409?this.reload():this.problem.value=e}#r(e){D(()=>{for(let o of e)this.#c(o);let n=this.log.value.at(-1)?.seq??0,s=e.filter(({seq:o})=>o!==null&&o>n);s.length&&(this.log.value=[...this.log.value,...s].slice(-Yy))})}#c(e){try{Dd(this,e)}catch(n){console.error(n)}}again(){let{value:e}=this.follower;e?.reconnect()}update(e){this.session.value&&(this.session.value={...this.session.value,...e})}setWorking(e,n){this.working.value=e;let{compaction:s}=this.session.value??{};s&&this.update({compaction:{...s,in_progress:n}})}setQueue(e){this.queue.value=e,this.update({queue:{...this.session.value?.queue,pending:e.length}})}};var _n={added:"good",modified:"running",deleted:"bad",renamed:"waiting"},Ke=t=>At(t).replaceAll(`
`,"␊").replaceAll("	","␉"),Tt=t=>`${$(t)} ${t===1?"file":"files"}`;function Be({additions:t,deletions:e}){return t+e===0?null:a`<span class="lines numbers">
    ${t>0&&a`<span class="lines-added">+${$(t)}<span class="hidden"> ${Gd(t)} added</span></span>`}${" "}
    ${e>0&&a`<span class="lines-removed">−${$(e)}<span class="hidden"> ${Gd(e)} removed</span></span>`}
  </span>`}var Gd=t=>t===1?"line":"lines";function Go({item:{path:t,old_path:e}}){return e===null?a`<bdi>${Ke(t)}</bdi>`:a`<bdi class="dim">${Ke(e)}</bdi> → <bdi>${Ke(t)}</bdi>`}var Jy={run_started:"started",run_ended:"ended"};function hs({run:t,reason:e,at:n}){let s=e==="before_restore"?"Before a restore":`Run ${$(t)} ${Jy[e]}`,o=new Date(n).toDateString()===new Date(st()).toDateString();return`${s}, ${o?de(n):pe(n)}`}var Jr=5e4,Vo="diff --git ";function Yd(t){let e=[],n=null;for(let s=t.startsWith(Vo)?0:-1;s>=0;){let o=t.indexOf(`
${Vo}`,s),i=o<0?t.length:o+1,r=t.slice(s,t.indexOf(`
`,s));r===n?e[e.length-1]+=t.slice(s,i):e.push(t.slice(s,i)),n=r,s=o<0?-1:i}return e}function Jd(t,{path:e,old_path:n}){let s=t.slice(Vo.length,t.indexOf(`
`));return s.includes('"')||s===`a/${n??e} b/${e}`}var Xy=/^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$/,Qy={" ":"same","+":"added","-":"removed"};function Yo(t){let e=new Yr;for(let n=0;n<t.length&&!e.isFull;){let s=t.indexOf(`
`,n),o=s<0?t.length:s;e.take(t.slice(n,o)),n=o+1}return e.diff()}var Yr=class{#e=[];#t=[];#n={before:new ms,after:new ms,notes:new ms};#s=null;#o=!1;get isFull(){return this.#e.length>=Jr}take(e){e.startsWith(Vo)?this.#s=null:e.startsWith("@@ ")?this.#i(e):this.#s===null?this.#c(e):e.startsWith("\\")?this.#r("end","notes",e.slice(1).trim()):this.#a(Qy[e[0]]??"same",e.slice(1))}#i(e){let[,n,s,o]=Xy.exec(e)??[null,"1","1",""];this.#s={old:Number(n),new:Number(s)},(o||Number(s)>1)&&this.#r("hunk","notes",`Line ${s}${o?` · ${o}`:""}`)}#a(e,n){let{old:s,new:o}=this.#s,i={old:e==="added"?null:s,new:e==="removed"?null:o};e==="same"&&this.#n.before.add(At(n)),this.#r(e,e==="removed"?"before":"after",n,i),this.#s={old:s+(e==="added"?0:1),new:o+(e==="removed"?0:1)}}#r(e,n,s,o={old:null,new:null}){this.#e.push({kind:e,side:n,...o,...this.#n[n].add(At(s))})}#c(e){let n=/^(old|new|deleted file|new file) mode (\d+)$/.exec(e);n&&this.#t.push({name:n[1],mode:n[2]}),(e.startsWith("GIT binary patch")||e.startsWith("Binary files "))&&(this.#o=!0)}diff(){let e=Object.fromEntries(Object.entries(this.#n).map(([s,o])=>[s,o.joined()])),{isFull:n}=this;return{lines:this.#e,facts:Zy(this.#t),texts:e,isBinary:this.#o,isFull:n}}},ms=class{#e=[];#t=0;add(e){let n=this.#t;return this.#e.push(e),this.#t+=e.length+1,{start:n,end:n+e.length}}joined(){return this.#e.join(`
`)}},Vd={12e4:"symbolic link",16e4:"git submodule",100755:"executable"};function Zy(t){let e=l=>t.find(c=>c.name===l)?.mode,[n,s]=[e("old")??e("deleted file"),e("new")??e("new file")],[o,i]=[Vd[n]??"file",Vd[s]??"file"];if(n&&s)return[i===o?`Mode: ${n} → ${s}`:`Type: ${o} → ${i}`];let r=s?i:o;return r==="file"?[]:[`Type: ${r}`]}function Xd({lines:t,texts:e},n,s){let o=[];return t.forEach(({side:i,start:r,end:l},c)=>{let u=r;do{let d=s(e[i],u,l,n);o.push({line:c,from:u,to:d}),u=d}while(u<l)}),o}var Jo=null;function bn(){if(Jo!==null)return Jo;let t=document.createElement("code");return t.className="file-ruler",t.textContent="0".repeat(100),document.body.append(t),Jo=t.getBoundingClientRect().width/100||8,t.remove(),Jo}var Xo=20,zt=30,e_=2e5,t_=20,n_=14,s_={added:"+",removed:"-",same:" ",hunk:" ",end:" "},Qd={added:"added",removed:"removed"};function Qo({diff:t,path:e}){let n=w(null),[s,o]=y(80),i=N(()=>Xd(t,s,wr),[t,s]),[r,l]=i_(n,i.length),c={before:Zd(t.texts.before,e),after:Zd(t.texts.after,e),notes:[]};M(()=>{let d=()=>{let h=Math.floor(n.current.clientWidth/bn())-n_;o(Math.max(t_,h))};d();let f=new ResizeObserver(d);return f.observe(n.current),()=>f.disconnect()},[]);let u=`${i.length*Xo}px`;return a`<div ref=${n} class="diff-rows" style=${{height:u}}>
    <div class="diff-sight" style=${{transform:`translateY(${r*Xo}px)`}}>
      ${i.slice(r,l).map((d,f)=>a`<${o_} key=${r+f} ...${{row:d,diff:t,tokens:c}} />`)}
    </div>
  </div>`}function o_({row:{line:t,from:e,to:n},diff:s,tokens:o}){let{kind:i,side:r,old:l,new:c,start:u}=s.lines[t],d=e===u;return a`<div class="diff-line ${i}">
    <span class="diff-number" aria-hidden="true">${d?l:null}</span>
    <span class="diff-number" aria-hidden="true">${d?c:null}</span>
    <span class="diff-sign" aria-hidden="true">${d?s_[i]:" "}</span>
    ${d&&Qd[i]&&a`<span class="hidden">${Qd[i]}: </span>`}
    <code dir="ltr">${Ee(s.texts[r],e,n,o[r]).map(hn)}</code>
  </div>`}function i_(t,e){let[n,s]=y({first:0,last:2*zt});return M(()=>{let i=t.current.closest(".transcript-box, .view"),r=()=>{let c=i.getBoundingClientRect().top-t.current.getBoundingClientRect().top,u=Math.floor(c/Xo/zt)*zt,d=Math.ceil(i.clientHeight/Xo/zt+1)*zt,[f,h]=[Math.max(0,u-zt),Math.max(0,u+d+zt)];s(p=>p.first===f&&p.last===h?p:{first:f,last:h})};r();let l=new ResizeObserver(r);return l.observe(i),l.observe(i.firstElementChild),i.addEventListener("scroll",r,{passive:!0}),()=>{l.disconnect(),i.removeEventListener("scroll",r)}},[]),[Math.min(n.first,Math.max(0,e-1)),Math.min(e,n.last)]}function Zd(t,e){let[n,s]=y({text:null,tokens:[]});return v(()=>{let o=xo(e);if(!o||t===""||t.length>e_)return;let i=!0;return ls(t,o).then(r=>i&&r&&s({text:t,tokens:r})),()=>{i=!1}},[t,e]),n.text===t?n.tokens:[]}function ef({changes:t,item:e,index:n,isOpen:s}){let o=()=>t.open(e.path,!s);return a`<section class="change" aria-label=${Ke(e.path)}>
    <h3>
      <button type="button" class="plain change-head" aria-expanded=${s} onClick=${o}>
        <span class="fold-mark" aria-hidden="true">${s?"▾":"▸"}</span>
        <span class="change-path mono"><${Go} item=${e} /></span>
        <${W} kind=${_n[e.status]}>${e.status}<//>
        ${e.binary?a`<span class="dim">binary</span>`:a`<${Be} ...${e} />`}
      </button>
    </h3>
    ${s&&a`<${r_} changes=${t} item=${e} index=${n} />`}
  </section>`}function r_({changes:t,item:e,index:n}){return e.binary?a`<p class="change-note">A binary file. Its content is in the patch, but not shown here.</p>`:a`<${a_} changes=${t} item=${e} index=${n} />`}function a_({changes:t,item:e,index:n}){let s=t.patch.value;if(v(()=>{s===null&&t.loadPatch()},[s]),s===null)return a`<p class="change-note" aria-busy="true">Loading…</p>`;if(s.problem)return a`<${F} problem=${s.problem} onRetry=${()=>l_(t)} />`;let o=s.parts[n];return o===void 0?a`<p class="change-note">The patch is too large to show this file. Download it to see all changes.</p>`:a`<${c_} part=${o} item=${e} />`}async function l_(t){await t.refresh(),await t.loadPatch()}function c_({part:t,item:e}){let n=N(()=>Yo(t),[t]),s=n.lines.length?n.facts:[...n.facts,u_(e)];return a`${s.map(o=>a`<p key=${o} class="change-note">${o}</p>`)}
    ${n.lines.length>0&&a`<${Qo} diff=${n} path=${e.path} />`}
    ${n.isFull&&a`<p class="change-note">Showing the first ${$(Jr)} lines. Download the patch to see the rest.</p>`}`}function u_({status:t}){return t==="renamed"?"Renamed without other changes.":t==="modified"?"No lines changed.":"The file is empty."}var Xr=200,tf="A run is active. Wait until it ends or cancel it, then restore.";function sf({state:t,changes:e,onClose:n}){let s=L(),o=e.checkpoints.value??[],[i,r]=y(e.from.value??o[0]?.id),[l,c]=d_(e,i),[u,d]=y(null),f=t.session.value.status!=="idle",h=async()=>{let m;try{m=await e.restore(i)}catch(S){d(S.code==="session_running"?tf:S.message);return}let x=`To undo this, restore “${hs(m.saved)}”.`;P(`Workspace restored. ${f_(m.skipped)}${x}`),n()},p=l.list!==void 0&&rf(l.list).length===0;return a`<${ee} title="Restore a checkpoint" onClose=${n}>
    <div class="field">
      <label for=${s}>Checkpoint</label>
      <select id=${s} value=${i} onChange=${({currentTarget:m})=>r(m.value)}>
        ${o.map(m=>a`<option key=${m.id} value=${m.id}>${hs(m)}</option>`)}
      </select>
    </div>
    <div class="restore-preview" aria-live="polite" aria-busy=${!l.list&&!l.problem}>
      ${l.problem&&a`<${F} problem=${l.problem} onRetry=${c} />`}
      ${!l.list&&!l.problem&&a`<p class="dim">Comparing with the workspace…</p>`}
      ${l.list&&a`<${h_} list=${l.list} />`}
    </div>
    <p>
      The workspace as it is now is saved as a checkpoint first, so you can undo this. The conversation stays, and so do
      files that checkpoints don't cover.
    </p>
    ${(f||u)&&a`<p class="restore-refusal" role="alert">${f?tf:u}</p>`}
    <footer>
      <button type="button" onClick=${n}>Cancel</button>
      <${C} kind="danger" disabled=${f||p||!l.list} onClick=${h}>Restore<//>
    </footer>
  <//>`}function d_(t,e){let[n,s]=y({}),[o,i]=y(0);return v(()=>{let r=!0;return s({}),t.preview(e).then(l=>r&&s({list:l}),l=>r&&s({problem:l})),()=>{r=!1}},[e,o]),[n,()=>i(o+1)]}function f_({items:t,truncated:e}){return t.length===0?"":`Skipped ${Tt(t.length)}${e?" or more":""} that checkpoints don't cover. `}var of=({path:t},e)=>e.items.some(({path:n})=>t===n||t.startsWith(`${n}/`)),p_={added:"deleted",deleted:"added",modified:"modified",renamed:"renamed"},rf=({items:t,not_covered:e})=>t.filter(n=>!of(n,e)),nf=(t,e)=>t.reduce((n,s)=>n+(s[e]??0),0);function h_({list:t}){let{items:e,truncated:n,not_covered:s}=t;if(e.length===0)return a`<p>The workspace is already as it was then.</p>`;let o=rf(t);return a`<p>
      This changes <strong>${Tt(o.length)}${n?" or more":""}</strong>:
      ${" "}<${Be} additions=${nf(o,"deletions")} deletions=${nf(o,"additions")} />
    </p>
    <div class="restore-files" tabindex="0" role="region" aria-label="Files that change">
      <ul>
        ${e.slice(0,Xr).map(i=>a`<${m_} key=${i.path} item=${i} isKept=${of(i,s)} />`)}
        ${e.length>Xr&&a`<li class="dim">and ${$(e.length-Xr)} more</li>`}
      </ul>
    </div>`}function m_({item:{path:t,old_path:e,status:n,binary:s,additions:o,deletions:i},isKept:r}){if(r)return a`<li><${W} kind="">kept<//>${" "}<code><bdi>${Ke(t)}</bdi></code></li>`;let l=p_[n];return a`<li>
    <${W} kind=${_n[l]}>${l}<//>${" "}
    <code><bdi>${Ke(t)}</bdi>${e!==null&&a` → <bdi>${Ke(e)}</bdi>`}</code>${" "}
    ${!s&&a`<${Be} additions=${i} deletions=${o} />`}
  </li>`}var $_=8*1024*1024,Qr=new WeakMap,af=!1;function $s(t){return Qr.has(t)||Qr.set(t,new Zr(t.id)),Qr.get(t)}function ft(t,e,n,s=null){let o=new URLSearchParams;for(let[r,l]of Object.entries({from:e,to:n,format:s}))l!==null&&o.set(r,l);let i=b(t,"changes");return o.size?`${i}?${o}`:i}var Zr=class{checkpoints=g(null);from=g(null);to=g(null);list=g(null);loadedAt=g(null);loading=g(!1);problem=g(null);patch=g(null);opened=g(new Map);#e;#t=0;#n=null;#s=new Map;#o=null;constructor(e){this.#e=e}get id(){return this.#e}choose(e,n){e===this.from.value&&n===this.to.value&&this.list.value||D(()=>{this.from.value=e,this.to.value=n,this.list.value=null,this.opened.value=new Map,this.#i()})}#i(){this.#n=null,this.patch.value=null}loadCheckpoints(){return this.#o??=E(b(this.#e,"checkpoints")).then(({items:e})=>this.checkpoints.value=e).finally(()=>this.#o=null),this.#o}async findCheckpoints(){af||await this.loadCheckpoints().catch(({code:e})=>af=e==="checkpoints_unavailable")}async refresh(){let e=this.#t+=1;this.loading.value=!0;try{let[,n]=await Promise.all([this.loadCheckpoints(),this.#r()]);e===this.#t&&this.#a(n)}catch(n){e===this.#t&&(this.problem.value=n)}finally{e===this.#t&&(this.loading.value=!1)}}#a(e){D(()=>{JSON.stringify(e)!==JSON.stringify(this.list.value)&&(this.list.value=e,this.#i()),this.patch.value?.problem&&this.#i();let{from_checkpoint:n,to_checkpoint:s}=e;n!==null&&s!==null&&(this.summary(n,s,!1).value=e),this.loadedAt.value=Date.now(),this.problem.value=null})}async#r(){try{return await E(ft(this.#e,this.from.value,this.to.value))}catch(e){if(e.code!=="checkpoint_not_found")throw e;return this.from.value=this.to.value=null,E(ft(this.#e,null,null))}}summary(e,n,s){let o=`${e} ${n}`,i=this.#s.get(o)??g(null);return this.#s.set(o,i),s&&i.peek()===null&&!i.isLoading&&(i.isLoading=!0,E(ft(this.#e,e,n)).then(r=>i.value=r).catch(()=>{}).finally(()=>i.isLoading=!1)),i}loadPatch(){return this.#n??=this.#c(),this.#n}async#c(){let e=this.list.value,n;try{n=this.#l(await lf(this.#e,this.from.value,this.to.value),e)}catch(s){n={parts:[],isCut:!1,problem:s}}e===this.list.value&&(this.patch.value=n,n.problem&&(this.#n=null))}#l({text:e,isCut:n},s){let o=Yd(e);n&&o.pop();let i=s.items.length;if(!(n||s.truncated||o.length===i)||o.some((l,c)=>c<i&&!Jd(l,s.items[c])))throw new Error("The workspace has changed since the list was loaded. Refresh it.");return{parts:o,isCut:n,problem:null}}async text(){let{text:e,isCut:n}=await lf(this.#e,this.from.value,this.to.value);if(n)throw new Error("The patch is too large to copy. Download it instead.");if(e.includes("�"))throw new Error("The patch is not UTF-8 text. Download it instead.");return e}preview(e){return E(ft(this.#e,e,null))}async restore(e){let n=await H(b(this.#e,"checkpoints",e,"restore"));return await this.refresh(),n}open(e,n){this.opened.value=new Map(this.opened.value).set(e,n)}};async function lf(t,e,n){let s=new AbortController,o=await be("GET",ft(t,e,n,"patch"),{signal:s.signal}),i=new TextDecoder,r=o.body.getReader(),l=[];for(let c=0;;){let{done:u,value:d}=await r.read();if(u)return{text:l.join("")+i.decode(),isCut:!1};if(c+=d.length,l.push(i.decode(d,{stream:!0})),!(c<$_))return s.abort(),{text:l.join(""),isCut:!0}}}var ea=100,g_=300,v_=2e3,y_=new Set(["session.running","session.idle","workspace.restored"]);function uf({state:t}){let e=$s(t),[n,s]=y(!1),o=e.from.value,i=e.to.value,r=Dt(()=>t.log.value.findLast(({type:u})=>y_.has(u))?.seq).value;v(()=>{e.refresh()},[r,o,i]);let l=e.list.value,c=e.problem.value;return a`<div class="changes-view">
    <${__} state=${t} changes=${e} onRestore=${()=>s(!0)} />
    ${c&&a`<${F} problem=${c} onRetry=${()=>e.refresh()} />`}
    ${!l&&!c&&a`<p class="dim" aria-busy="true">Loading…</p>`}
    ${l&&a`<${b_} state=${t} changes=${e} list=${l} />`}
    ${n&&a`<${sf} ...${{state:t,changes:e,onClose:()=>s(!1)}} />`}
  </div>`}function __({state:t,changes:e,onRestore:n}){let s=L(),o=e.checkpoints.value??[],i=e.from.value??o[0]?.id??"",r=e.to.value??"",l=e.list.value?.items.length>0,c=ft(t.id,e.from.value,e.to.value,"patch");return a`<div class="changes-bar">
    <div class="changes-side">
      <label for="${s}-from">From</label>
      <${cf} id="${s}-from" items=${o} value=${i}
        onChoose=${d=>e.choose(d,e.to.value)} />
    </div>
    <div class="changes-side">
      <label for="${s}-to">To</label>
      <${cf} id="${s}-to" items=${o} value=${r} hasNow=${!0}
        onChoose=${d=>e.choose(e.from.value,d||null)} />
    </div>
    <div class="changes-ways">
      <${C} onClick=${()=>e.refresh()}>Refresh<//>
      ${l&&a`<${C} onClick=${async()=>{await De(await e.text()),P("Patch copied.")}}>Copy patch<//>`}
      ${l&&a`<a class="button" href=${c} download=${`${t.id}.patch`}>Download patch</a>`}
      ${o.length>0&&a`<button type="button" onClick=${n}>Restore…</button>`}
    </div>
  </div>`}function cf({id:t,items:e,value:n,onChoose:s,hasNow:o=!1}){return a`<select id=${t} value=${n} disabled=${e.length===0}
    onChange=${({currentTarget:i})=>s(i.value)}>
    ${e.length===0&&!o&&a`<option value="">No checkpoints</option>`}
    ${e.map(i=>a`<option key=${i.id} value=${i.id}>${hs(i)}</option>`)}
    ${o&&a`<option value="">Now</option>`}
  </select>`}function b_({state:t,changes:e,list:n}){let[s,o]=y(ea),{items:i,truncated:r,not_covered:l}=n,c=w_(i,e.opened.value),u=i.length-s;return a`<${x_} state=${t} changes=${e} list=${n} />
    ${i.length===0&&a`<${k_} state=${t} list=${n} />`}
    <div class="changed-files">
      ${i.slice(0,s).map((d,f)=>a`<${ef} key=${`${f} ${d.path}`} isOpen=${c[f]} ...${{changes:e,item:d,index:f}} />`)}
    </div>
    ${u>0&&a`<p class="more">
      <button type="button" onClick=${()=>o(s+ea)}>
        Show ${$(Math.min(u,ea))} of ${$(u)} more ${u===1?"file":"files"}
      </button>
    </p>`}
    ${r&&a`<p class="dim">Only the first ${Tt(i.length)} are listed. The patch has all of them.</p>`}
    <${O_} uncovered=${l} />`}function w_(t,e){let n=0;return t.map(({path:s,binary:o,additions:i,deletions:r})=>{let l=i+r,c=!o&&l<=g_&&n+l<=v_;return c&&(n+=l+1),e.get(s)??c})}function x_({state:t,changes:e,list:n}){let s=t.session.value.status!=="idle"&&e.to.value===null,o=de(e.loadedAt.value);return a`<p class="changes-sum" role="status">
    ${n.items.length>0&&a`<strong>${Tt(n.items.length)}${n.truncated?" or more":""} changed</strong> <${Be} ...${n} />`}
    ${s&&a` <span class="dim">A run is active. These are the changes as of ${o}.</span>`}
  </p>`}function k_({state:t,list:e}){let n=e.from_checkpoint===null,[s,o]=y(null);return v(()=>{n&&E_(t.id).then(o,()=>{})},[n]),a`<div class="changes-empty">
    <h2>No changes</h2>
    <p>${S_(e,t.session.value,s)}</p>
    ${e.not_covered.items.length>0&&a`<p class="dim">Files that checkpoints don't cover aren't compared.</p>`}
  </div>`}function S_({from_checkpoint:t,to_checkpoint:e},{status:n,outcome:s},o){return t!==null?t===e?"This compares a checkpoint with itself.":"The files are the same on both sides.":o?`No checkpoint could be taken, so there is nothing to compare with: ${_(o.detail)}`:n==="idle"&&s===null?"The session has not run yet. The first checkpoint is taken when a run starts.":"There is no checkpoint to compare with yet."}async function E_(t){return(await E(`${b(t,"log")}?types=checkpoint.failed&order=desc&limit=1`)).items[0]?.data??null}var C_={ignored:"Ignored by .gitignore",too_large:"Too large",cache:"Caches and dependencies",git:"Git's own data",internal:"Palimpsest's own files",unreadable:"Can't be read",secret:"Contains a secret"};function O_({uncovered:{items:t,truncated:e}}){if(t.length===0)return null;let n=Map.groupBy(t,({reason:s})=>s);return a`<details class="not-covered">
    <summary>Not covered by checkpoints (${$(t.length)}${e?" or more":""})</summary>
    <p class="dim">These are not compared, not in the patch, and a restore leaves them as they are.</p>
    ${[...n].map(([s,o])=>a`<h3 key=${s}>${C_[s]??s}</h3>
        <ul>
          ${o.map(({path:i})=>a`<li key=${i}><code><bdi>${Ke(i)}</bdi></code></li>`)}
        </ul>`)}
    ${e&&a`<p class="dim">There are more.</p>`}
  </details>`}var Zo=65536,T_=100,ta=new WeakMap;function ti(t){return ta.has(t)||ta.set(t,new na(t)),ta.get(t)}var na=class{step=g(null);data=g(null);loading=g(!1);problem=g(null);#e;#t=0;constructor(e){this.#e=e}choose(e){return this.step.value=e,this.load()}async load(){let e=++this.#t,{value:n}=this.step;this.loading.value=!0;try{let s=n===null?"":`?step=${n}`,o=await E(`${b(this.#e.id,"context")}${s}`);if(e!==this.#t)return;this.data.value={...o,messages:M_(this.data.value?.messages??[],o.messages)},this.problem.value=null}catch(s){e===this.#t&&(this.problem.value=s)}finally{e===this.#t&&(this.loading.value=!1)}}};function M_(t,e){let n=new Map(t.map(s=>[s.message.id,s]));return e.map(s=>{let o=n.get(s.message.id);return o&&JSON.stringify(o)===JSON.stringify(s)?o:s})}function df({system:t,tools:e,messages:n}){let s={summary:"Summaries",placeholder:"Placeholders",clip:"Clipped"},o={Messages:[],Summaries:[],Clipped:[],Placeholders:[]};for(let r of n)o[s[r.reason]??"Messages"].push(r);let i=r=>r.reduce((l,{tokens:c})=>l+c,0);return[{name:"System",tokens:t.tokens,count:1},{name:"Tools",tokens:i(e),count:e.length},...Object.entries(o).map(([r,l])=>({name:r,tokens:i(l),count:l.length}))]}async function ff(t,{id:e,seq:n}){return(await E(`${b(t,"messages")}?after=${Math.max(0,n-1)}&limit=1`)).items.find(o=>o.id===e)??null}async function pf(t,e){let n=b(t,"tool-calls",e,"output"),o=(await E(b(t,"tool-calls",e))).result?.bytes??0;return o===0?{text:"",isWhole:!0,size:o}:{text:await(await be("GET",n,{headers:{Range:`bytes=0-${Zo-1}`}})).text(),isWhole:o<=Zo,size:o}}var ei=class{messages=g([]);isWhole=g(!1);#e;#t;#n=null;constructor(e,n,s){this.#e=e,this.#t=n,this.steps=s}async more(){this.#n??=await this.#o()-1;let e=this.messages.value.length>0,n=this.#t.first_message_id;for(;;){let s=b(this.#e.id,"messages"),o=await E(`${s}?after=${Math.max(0,this.#n)}&limit=${T_}`);this.#n=o.next_cursor??1/0;let i=e?0:o.items.findIndex(({id:r})=>r===n);if(i>=0&&(e=!0,this.#s(o.items.slice(i))),o.next_cursor===null&&(this.isWhole.value=!0),e||o.next_cursor===null)return}}#s(e){let n=e.findIndex(({id:s})=>s===this.#t.last_message_id);n>=0&&(this.isWhole.value=!0),this.messages.value=[...this.messages.value,...n>=0?e.slice(0,n+1):e]}async#o(){let{first_message_id:e,created_at:n}=this.#t,s=this.#e.transcript.message(e)?.peek().seq;if(s!==void 0)return s;let o=this.steps.findLast(({started_at:r})=>!n||Date.parse(r)<=Date.parse(n));if(!o)return 1;let{messages:i}=await E(`${b(this.#e.id,"context")}?step=${o.step}`);return i.find(({message:r})=>r.id===e)?.message.seq??1}};var wn=null;async function wf(){wn??=(await import("../later/uplot-INXEVI7U.js")).default}var hf=258,mf=86,$f=46,A_=18,R_=9,ni=.5,L_=[1,2,5,10,20,50,100,200,500,1e3,2e3,5e3,1e4,2e4,5e4],I_=["accent","bad","dim","line","running","surface","waiting","warn"],gf=()=>Object.fromEntries(I_.map(t=>[t,Il(`--${t}`)])),vf=(t,e)=>t.replace(/^rgb\((.*)\)$/,`rgba($1, ${e})`),yf=()=>`12px ${getComputedStyle(document.body).fontFamily}`,si=class{#e;#t;#n=[];#s=!0;#o=gf();constructor(e,{onHover:n,onPick:s}){let o=Math.max(200,e.clientWidth),i=c=>n(c.cursor.idx??null);this.#e=new wn(this.#r(o,i),this.#a(),e),this.#t=new wn(this.#c(o,i),[[],[]],e);let{over:r}=this.#e,l=0;r.addEventListener("mousedown",c=>l=c.clientX),r.addEventListener("click",c=>{let{idx:u}=this.#e.cursor;u!=null&&Math.abs(c.clientX-l)<4&&s(u)})}draw(e,n){let s=this.#i();this.#n=e,this.#s=n;let o=this.#a();this.#e.setData(o),this.#t.setData([o[0],e.map(N_)]),s&&this.#e.setScale("x",s),s&&this.#t.setScale("x",s)}resize(e){this.#e.setSize({width:e,height:hf}),this.#t.setSize({width:e,height:mf})}repaint(){this.#o=gf(),this.#e.redraw(!1,!0),this.#t.redraw(!1,!0)}pointAt(e){let n=this.#n[e];if(!n)return;let s=this.#e.valToPos(n.x,"x"),o=this.#e.valToPos(n.tokens,"y");this.#e.setCursor({left:s,top:o},!1,!1),this.#t.setCursor({left:s,top:0},!1,!1)}destroy(){this.#e.destroy(),this.#t.destroy()}#i(){if(this.#n.length===0)return null;let{min:e,max:n}=this.#e.scales.x,s={min:e+ni,max:n-ni};return s.min>this.#n[0].x||s.max<this.#n.at(-1).x?s:null}#a(){let e=n=>this.#n.map(s=>s[n]);return[e("x"),e("limit"),e("usable"),e("tokens")]}#r(e,n){let s=wn.paths.stepped({align:-1}),o=(i,r)=>({stroke:()=>this.#o[i],width:1.5,dash:r,paths:s,points:{show:!1}});return{..._f(e,hf),scales:{x:{time:!1,range:bf},y:{range:()=>[0,this.#f()]}},axes:[this.#l({label:"Step",size:26,incrs:L_}),this.#l({label:"Tokens",size:$f,values:(i,r)=>r.map(oe)})],series:[{},o("bad",[2,3]),o("warn",[7,4]),{stroke:()=>this.#o.accent,fill:()=>vf(this.#o.accent,.12),width:2,points:{show:i=>this.#n.length*R_<=i.width,size:5,filter:(i,r,l)=>l?this.#d():null}}],hooks:{draw:[i=>this.#u(i)],setCursor:[n]}}}#c(e,n){return{..._f(e,mf),scales:{x:{time:!1,range:bf},y:{range:[0,100]}},axes:[this.#l({show:!1}),this.#l({label:"Cache reuse",size:$f,splits:()=>[0,50,100],values:(s,o)=>o.map(i=>`${i}%`)})],series:[{},{stroke:()=>this.#o.running,fill:()=>vf(this.#o.running,.5),width:0,paths:wn.paths.bars({size:[.7,24]}),points:{show:!1}}],hooks:{setCursor:[n]}}}#l(e){return{stroke:()=>this.#o.dim,font:yf(),labelFont:yf(),labelSize:A_,grid:{stroke:()=>this.#o.line,width:1},ticks:{show:!1},gap:4,...e}}#d(){return this.#n.flatMap(({step:e},n)=>e?[n]:[])}#f(){let e=this.#n.reduce((n,{tokens:s})=>Math.max(n,s),1);return Math.max(e,this.#s?this.#n.at(-1)?.limit??0:0)*1.08}#u(e){let{ctx:n}=e;n.save();for(let s of this.#n)s.mark&&s.edge===0&&s.mark.after!==null&&P_(e,n,s.mark,this.#o);n.restore()}};function _f(t,e){return{width:t,height:e,padding:[8,8,4,0],legend:{show:!1},cursor:{sync:{key:"context",scales:["x",null]},y:!1,drag:{x:!0,y:!1},points:{size:7}}}}function bf(t,e,n){return e===null?[0,1]:[e-ni,n+ni]}function N_({step:t}){if(!t)return;let e=We(t.usage);return e===null?null:e*100}function P_(t,e,{kind:n,item:s,x:o,before:i,after:r},l){let c=wn.pxRatio,u=t.valToPos(o,"x",!0),{left:d,width:f}=t.bbox;if(u<d||u>d+f)return;let h=t.valToPos(i,"y",!0),p=t.valToPos(r,"y",!0),m=4*c;e.strokeStyle=n==="round"?l.waiting:l.running,e.fillStyle=s.status==="reverted"||n==="prune"?l.surface:e.strokeStyle,e.lineWidth=1.5*c,e.setLineDash(s.status==="reverted"?[3*c,3*c]:[]),e.beginPath(),e.moveTo(u,h),e.lineTo(u,p),e.stroke(),e.setLineDash([]),e.beginPath(),n==="round"?D_(e,u,h,m):e.arc(u,h,m*.85,0,2*Math.PI),e.fill(),e.stroke(),e.beginPath(),e.moveTo(u-m*.8,p-m),e.lineTo(u,p),e.lineTo(u+m*.8,p-m),e.stroke()}function D_(t,e,n,s){t.moveTo(e,n-s),t.lineTo(e+s,n),t.lineTo(e,n+s),t.lineTo(e-s,n),t.closePath()}var gs=({cost_usd:t})=>t===null?"unknown":te(t);function vs({outputs_pruned:t,image_ids:e}){return[[t,"output"],[e?.length??0,"image"]].filter(([s])=>s>0).map(([s,o])=>`${$(s)} ${o}${s===1?"":"s"}`).join(", ")}var pt={overflow:"context exceeded the usable tokens",threshold:"context was nearly full",provider_overflow:"provider rejected the request as too large",manual:"requested manually"},xn={prune:"clearing old outputs",summary:"summary by the model",fold:"folding without a model",shrink:"shrinking the tail"},kn=({status:t,rung:e})=>t==="completed"&&(e==="fold"||e==="shrink"),oi={trigger:"context exceeded the trigger",run_end:"a run ended close to the trigger",model_change:"the model changed, so the cache was cold anyway"},xf={placeholder:"Cleared: the model sees a placeholder, which says how to see the output or the image again.",clip:"Only the beginning and the end are sent.",summary:"A summary, sent instead of earlier messages.",repair:"Repaired so that the provider accepts the request; the history is unchanged.",control:"Added by Palimpsest, not by the user."},kf={running:"running",completed:"good",failed:"bad",cancelled:"warn",reverted:"warn",discarded:""};function tt({name:t,foldKey:e,history:n,children:s}){let o=n.isOpen(e);return a`<div class="cx-fold">
    <button class="plain" aria-expanded=${o} onClick=${()=>n.toggle(e)}>
      <span aria-hidden="true">${o?"▾":"▸"}</span> ${t}
    </button>
    ${o&&s}
  </div>`}var sa=100,F_=["Tokens","Usable","Limit","New input","Cache read","Cache write","Output","Reuse","Cost","Time","Compaction"];function Sf({history:t}){return a`<${tt} name="Show as table" foldKey="steps" history=${t}>
    <${W_} history=${t} />
  <//>`}function W_({history:t}){let e=t.attempts.value,n=q(sa),s=e.slice(-n.value).reverse(),o=e.length-s.length;return a`<div class="cx-scroll" tabindex="0" role="region" aria-label="Steps as a table">
      <table class="steps">
        <thead>
          <tr>
            <th scope="col">Step</th>
            ${F_.map(i=>a`<th key=${i} scope="col" class="number">${i}</th>`)}
            <th scope="col">Ended</th>
          </tr>
        </thead>
        <tbody>
          ${s.map(i=>a`<${B_} key=${i.message_id} row=${i} />`)}
        </tbody>
      </table>
    </div>
    ${o>0&&a`<button onClick=${()=>n.value+=sa*5}>Show ${$(Math.min(o,sa*5))} of
      ${" "}${$(o)} earlier</button>`}`}function B_({row:t}){let{step:e,attempt:n,context:s,usage:o,finish_reason:i,duration_ms:r,compaction_round:l}=t,c=[$(s.tokens),$(s.usable),$(s.limit),$(o.input_tokens),$(o.cache_read_tokens),$(o.cache_write_tokens),$(o.output_tokens),J(We(o)),te(o.cost_usd),U(r),l?`after ${l}`:"–"];return a`<tr>
    <th scope="row">${$(e)}${n>1&&a`<span class="dim"> attempt ${n}</span>`}</th>
    ${c.map((u,d)=>a`<td key=${d} class="number">${u}</td>`)}
    <td>${i===null?"running":i.replace("_"," ")}</td>
  </tr>`}var q_=.2,U_={ArrowLeft:-1,ArrowRight:1,PageUp:-10,PageDown:10,Home:-1/0,End:1/0};function Ef({history:t,onPick:e}){let n=t.points.value,s=q(null),o=q(null),i=w(null),r=n.reduce((f,{tokens:h})=>Math.max(f,h),0),l=o.value??r>=q_*(n.at(-1)?.limit??0),c=s.value!==null&&n[s.value]?s.value:n.length-1,u=f=>n[f]&&e(n[f]);function d(f){if(f.key==="Enter")return u(c);let h=U_[f.key];h===void 0||f.altKey||f.ctrlKey||f.metaKey||(f.preventDefault(),s.value=Math.max(0,Math.min(n.length-1,c+h)),i.current?.pointAt(s.value))}return n.length===0?a`<p class="dim">No steps yet.</p>`:a`<figure class="chart">
    <div
      class="chart-box"
      tabindex="0"
      role="group"
      aria-label="Chart of context tokens over ${$(t.steps.value.length)} steps. Use the arrow keys to move
        between steps and Enter to open a step or a compaction."
      onKeyDown=${d}
    >
      <${z_} plot=${i} points=${n} whole=${l} chosen=${s} onPick=${u} />
    </div>
    <figcaption>
      <${H_} />
      <span class="dim cx-zoom">Click to open · drag to zoom · double-click to reset</span>
      <label class="cx-check">
        <input type="checkbox" checked=${l} onChange=${f=>o.value=f.target.checked} />
        Show the full context window
      </label>
    </figcaption>
    <p class="chart-text numbers" aria-live=${s.value===null?"off":"polite"}>
      <${K_} point=${n[c]} isNewest=${s.value===null} />
    </p>
    <${Sf} history=${t} />
  </figure>`}function z_(t){let[e,n]=y(!1);return v(()=>{wf().then(()=>n(!0),re)},[]),e?a`<${j_} ...${t} />`:a`<div class="chart-canvas"></div>`}function j_({plot:t,points:e,whole:n,chosen:s,onPick:o}){let i=w(null),r=w(o);return r.current=o,v(()=>{let l=new si(i.current,{onHover:u=>s.value=u,onPick:u=>r.current(u)});t.current=l;let c=new ResizeObserver(([{contentRect:u}])=>u.width>0&&l.resize(u.width));return c.observe(i.current),()=>{c.disconnect(),l.destroy()}},[]),v(()=>t.current.draw(e,n),[e,n]),qn(()=>{Ll.value,t.current?.repaint()}),a`<div class="chart-canvas" ref=${i}></div>`}function H_(){return a`<ul class="cx-legend">
    <li><span class="cx-key cx-tokens"></span>context</li>
    <li><span class="cx-key cx-usable"></span>usable</li>
    <li><span class="cx-key cx-limit"></span>limit</li>
    <li><span class="cx-key cx-compaction">◆</span>compaction</li>
    <li><span class="cx-key cx-prune">○</span>outputs cleared</li>
    <li><span class="cx-key cx-reuse"></span>cache reuse (below)</li>
  </ul>`}function K_({point:t,isNewest:e}){if(t.mark)return a`<${G_} mark=${t.mark} />`;let{step:n,attempt:s,context:o,usage:i,duration_ms:r}=t.step;return a`<b>Step ${$(n)}</b>${e?" (newest)":""}${s>1?`, attempt ${s}`:""}:
    ${" "}${$(o.tokens)} of ${$(o.usable)} usable tokens (${o.source}).
    ${He(i)>0&&a` Read ${$(He(i))}, ${$(i.cache_read_tokens)} of them cached
      (${J(We(i))} reuse); wrote ${$(i.output_tokens)}; cost ${gs(i)}${r===null?"":`; took ${U(r)}`}.`}`}function G_({mark:{kind:t,item:e,before:n,after:s}}){let o=`${$(n)} → ${$(s)} tokens`,i=`${J(Ot(e))} less`;return t==="prune"?a`<b>${vs(e)} cleared</b>:
      ${" "}${o}, ${i}; ${oi[e.reason]??e.reason}. No model call, $0.`:a`<b>Compaction ${e.round}</b>${e.status==="reverted"?" (reverted)":""}:
    ${" "}${o}, ${i};
    ${" "}${pt[e.reason]??e.reason}. Cost ${gs(e.usage)}:
    ${" "}${$(He(e.usage))} tokens read (${J(We(e.usage))} from the cache),
    ${" "}${$(e.usage.output_tokens)} written.`}var ii=240;function ri({parts:t}){let e=t.map(V_).filter(Boolean).join(" · ");return _(e.slice(0,ii)).trim()||"(empty)"}function V_(t){let{type:e}=t;return e==="text"?t.text.slice(0,ii):e==="reasoning"?"(reasoning)":e==="tool_call"?`→ ${ve(t.name)} ${Cf(t).slice(0,ii)}`:e==="tool_result"?t.output.slice(0,ii)||"(no output)":e==="image"?`[${Co(t)}]`:""}function Cf({arguments:t},e){return typeof t=="string"?t:JSON.stringify(t,null,e)}function ys({sessionId:t,message:e}){return e.parts.length===0?a`<p class="dim">This message has no parts.</p>`:a`<div class="cx-parts">
    ${e.parts.map(n=>a`<${Y_} key=${n.id} sessionId=${t} part=${n} />`)}
  </div>`}function Y_({sessionId:t,part:e}){let{type:n}=e;return n==="text"?a`<${ae} label="Text" text=${R(e.text)} />`:n==="reasoning"?a`<${oa} name="Reasoning" text=${e.text} />`:n==="tool_call"?a`<${oa} name=${J_(e)} text=${Cf(e,2)} />`:n==="tool_result"?a`<${oa} name=${X_(e)} text=${e.output} />`:n==="image"?a`<${Or} sessionId=${t} part=${e} />`:a`<p class="dim">Compaction ${e.round} starts here.</p>`}var J_=({name:t})=>`Call to ${ve(t)}`;function oa({name:t,text:e}){let n=_(t);return a`<div class="cx-part">
    <p class="dim">${n}</p>
    ${e&&a`<${ae} label=${n} text=${R(e)} />`}
  </div>`}function X_({name:t,status:e,exit_code:n,bytes:s,duration_ms:o,original_tokens:i}){return[`Result of ${ve(t)}: ${e}`,n!=null&&`exit code ${n}`,j(s),U(o),i!=null&&`originally ${$(i)} tokens`].filter(Boolean).join(", ")}function Sn({sessionId:t,callId:e,verb:n="Show original output"}){let s=q(null);return s.value===null?a`<${C} onClick=${async()=>s.value=await pf(t,e)}>${n}<//>`:a`<${Q_} sessionId=${t} callId=${e} output=${s.value} />`}function Q_({sessionId:t,callId:e,output:{text:n,isWhole:s,size:o}}){let i=w(null);return M(()=>{document.activeElement===document.body&&i.current.focus({preventScroll:!0})},[]),a`<div class="cx-original" ref=${i} tabindex="-1">
    <p class="dim">
      Original output, ${j(o)}${s?"":` (first ${j(Zo)} shown)`}
      ${" "}<a href=${b(t,"tool-calls",e,"output")} download>Download</a>
    </p>
    ${n?a`<${ae} label="Original output" text=${R(n)} />`:a`<p class="dim">Empty.</p>`}
  </div>`}function En({state:t,history:e,range:n,total:s,isKept:o=()=>!1}){let{first_message_id:i,last_message_id:r}=n,l=N(()=>new ei(t,n,e.steps.peek()),[i,r]),c=q(null);async function u(){try{await l.more(),c.value=null}catch(f){c.value=f}}v(()=>{u()},[l]);let d=l.messages.value;if(c.value&&d.length===0)return a`<${F} problem=${c.value} onRetry=${u} />`;if(d.length===0){let f=l.isWhole.value;return a`<p class="dim" aria-busy=${!f}>${f?"These messages were not found.":"Loading…"}</p>`}return a`<ol class="cx-rows">
      ${d.map(f=>a`<${Z_} key=${f.id} id=${t.id} message=${f} kept=${o(f)} />`)}
    </ol>
    ${!l.isWhole.value&&a`<${C} onClick=${u}>Show more (${$(d.length)} of about ${$(s)} loaded)<//>`}`}function Z_({id:t,message:e,kept:n}){let s=q(!1),{voided_at:o,is_summary:i}=e,r=[n&&"kept",o&&"discarded",i&&"earlier summary"].filter(Boolean);return a`<li class="cx-row">
    <button class="plain cx-row-head" aria-expanded=${s.value} onClick=${()=>s.value=!s.value}>
      <span class="cx-row-role">${e.role}</span>
      <span class="cx-row-text">${r.length>0&&a`<em>${r.join(", ")} </em>`}${ri(e)}</span>
      <span class="cx-row-tokens numbers">${$(e.tokens)}</span>
    </button>
    ${s.value&&a`<div class="cx-row-body">
      <${ys} sessionId=${t} message=${e} />
      <${ia} id=${t} message=${e} />
    </div>`}
  </li>`}function ia({id:t,message:e}){return e.parts.filter(({type:s,truncated:o})=>s==="tool_result"&&o).map(({call_id:s})=>a`<${Sn} key=${s} sessionId=${t} callId=${s}
      verb="Show full output" />`)}var eb=["reactive","threshold","handoff"];function Of({state:t,history:e}){let n=e.isOpen("compact");return a`<div class="cx-fold">
    <button aria-expanded=${n} onClick=${()=>e.toggle("compact")}>Compact now…</button>
    <div hidden=${!n}><${tb} state=${t} history=${e} /></div>
  </div>`}function tb({state:t,history:e}){let n=q(""),s=q(""),o=q(null),i=t.session.value?.compaction.policy,r=()=>({...n.value&&{policy:n.value},...s.value.trim()&&{instructions:s.value}}),l=b(t.id,"compactions"),c=async()=>{let f=e.version.value,h=r(),p=await H(l,{...h,dry_run:!0});JSON.stringify(r())===JSON.stringify(h)&&(o.value={version:f,found:p})},u=(f,h)=>{f.value=h,o.value=null},d=async()=>{let f=await H(l,r());o.value=null;let h=t.session.value?.status==="idle"?"":"; it will run before the next step";P(`Compaction ${f.round} requested${h}.`)};return a`<form class="compact-form" onSubmit=${f=>f.preventDefault()}>
    <div class="field">
      <label for="compact-policy">Policy</label>
      <select id="compact-policy" value=${n.value} onChange=${f=>u(n,f.target.value)}>
        <option value="">session default (${i})</option>
        ${eb.map(f=>a`<option key=${f} value=${f}>${f}</option>`)}
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
        onInput=${f=>u(s,f.target.value)}
      ></textarea>
    </div>
    <div class="cx-buttons">
      <${C} onClick=${c}>Preview<//>
      <${C} kind="primary" onClick=${d}>Compact<//>
    </div>
    ${o.value&&a`<${nb} ...${o.value} state=${t} history=${e} />`}
  </form>`}function nb({found:t,version:e,state:n,history:s}){let{messages_compacted:o,outputs_pruned:i,call_ids:r,kept_message_ids:l}=t,c=t.tokens_after<t.trigger;return a`<section class="cx-preview" aria-label="Compaction preview" aria-live="polite">
    <h3>Preview (${t.policy})</h3>
    ${e!==s.version.value&&a`<p class="cx-bad-text">The context has changed since this preview.</p>`}
    <dl class="cx-facts numbers">
      <div><dt>Tokens</dt><dd>${$(t.tokens_before)} → about ${$(t.tokens_after)}
        ${" "}(${J(Ot(t))} less)</dd></div>
      <div><dt>Trigger</dt><dd>${$(t.trigger)}</dd></div>
      <div><dt>Usable</dt><dd>${$(t.usable)}</dd></div>
      <div><dt>Limit</dt><dd>${$(t.limit)}</dd></div>
      <div><dt>Messages compacted</dt><dd>${$(o)}</dd></div>
      <div><dt>Kept verbatim</dt><dd>${$(l.length)}</dd></div>
      <div><dt>Outputs cleared</dt><dd>${$(i)}</dd></div>
    </dl>
    ${o===0&&a`<p>There is nothing to compact: no model would be called, and the context would stay as it is.</p>`}
    ${o>0&&!c&&a`<p>This is not below the trigger, so the compaction may escalate.</p>`}
    ${o>0&&a`<${tt} name="Messages that would be summarized" foldKey="preview-messages" history=${s}>
      <${En} state=${n} history=${s} range=${t} total=${o}
        isKept=${({id:u})=>l.includes(u)} />
    <//>`}
    ${i>0&&a`<${tt} name="Outputs that would be cleared" foldKey="preview-outputs" history=${s}>
      <ul class="cx-cleared">
        ${r.map(u=>a`<li key=${u}>
            <code class="dim">${_(u)}</code> <${Sn} sessionId=${n.id} callId=${u} />
          </li>`)}
      </ul>
    <//>`}
  </section>`}var sb={placeholder:"running",clip:"warn",summary:"good",repair:"bad",control:""};function Tf({item:t,state:e,history:n}){let{message:s,tokens:o,reason:i}=t,r=`item-${s.id}`,l=Dt(()=>n.isOpen(r)).value;return a`<div class="cx-item ${i??""}" role="listitem">
    <button class="plain cx-item-head" aria-expanded=${l} onClick=${()=>n.toggle(r)}>
      <span class="cx-row-role">${s.role}</span>
      <span class="cx-row-text">
        ${i&&a`<${W} kind=${sb[i]??""}>${i}<//> `}${ri(s)}
      </span>
      <span class="cx-row-tokens numbers">${$(o)}</span>
      <span class="cx-item-was dim">${ob(t)}</span>
    </button>
    ${l&&a`<${ib} item=${t} state=${e} history=${n} />`}
  </div>`}function ob({message:t,reason:e}){let n=t.parts.reduce((s,o)=>s+(o.original_tokens??0),0);return e==="placeholder"?n?`${$(n)} tokens before`:"cleared":e==="clip"?"longer than sent":e==="summary"?"summarized messages":e==="repair"?"repaired for the request":e==="control"?"added by Palimpsest":"unchanged"}function ib({item:t,state:e,history:n}){return a`<div class="cx-sides">
    <section aria-label="Model's view">
      ${t.reason&&a`<p class="dim">${xf[t.reason]??t.reason}</p>`}
      <${ys} sessionId=${e.id} message=${t.message} />
    </section>
    <section aria-label="Full history">
      ${t.reason==="summary"?a`<${lb} message=${t.message} state=${e} history=${n} />`:a`<${rb} item=${t} state=${e} />`}
    </section>
  </div>`}function rb({item:t,state:e}){let{message:n}=t,s=q(void 0),o=q(null);async function i(){try{s.value=await ff(e.id,n),o.value=null}catch(u){o.value=u}}if(v(()=>{i()},[n.id]),o.value)return a`<${F} problem=${o.value} onRetry=${i} />`;if(s.value===void 0)return a`<p class="dim" aria-busy="true">Loading…</p>`;if(s.value===null)return a`<p>This message is not stored: it was created for the request.</p>`;let{seq:r,created_at:l,tokens:c}=s.value;return a`<p class="dim numbers">Stored at ${de(l)} with seq ${$(r)}, ${$(c)} tokens.</p>
    ${ab(s.value,n)?a`<p>Unchanged.</p>`:a`<${ys} sessionId=${e.id} message=${s.value} />`}
    <${ia} id=${e.id} message=${s.value} />`}function ab(t,e){let n=({type:s,text:o,output:i,arguments:r,digest:l})=>[s,o,i,r,l];return JSON.stringify(t.parts.map(n))===JSON.stringify(e.parts.map(n))}function lb({message:t,state:e,history:n}){let s=n.rounds.value.findLast(i=>cb(i,t));if(!s)return a`<p>The compaction that made this summary is no longer known.</p>`;let o=()=>n.select(`round-${s.round}`);return a`<p>
      Made by compaction ${s.round}, which merged earlier summaries and ${$(s.messages_compacted)} new
      messages.
      ${" "}<button class="plain link" onClick=${o}>Show compaction</button>
    </p>
    <${En} state=${e} history=${n} range=${s} total=${s.messages_compacted} />`}function cb({summary:t,created_at:e},n){return!t||Date.parse(e)>Date.parse(n.created_at)?!1:n.parts.some(({text:s})=>s?.includes(t))}var ub={builtin:"built-in",output:"output",client:"client"},db={ready:"good",failed:"bad"},fb={unknown:"not connected yet"};function Rf({tools:t,state:e,history:n}){let[s,o]=y({items:[],servers:[]}),[i,r]=y(null),l=()=>E(b(e.id,"tools")).then(o,r);v(()=>{l()},[t]);let c=new Map(s.items.map(d=>[d.name,Mf(d)])),u=s.items.filter(({whole:d})=>!d);return a`${i&&a`<${F} problem=${i} onRetry=${()=>(r(null),l())} />`}
    <ul class="cx-tools">
      ${t.map(d=>a`<${Af} key=${d.name} ...${{tool:d,source:c.get(d.name),history:n}} />`)}
    </ul>
    ${u.length>0&&a`<p class="dim">Not in the request: the model finds and calls these with mcp_search.</p>
      <ul class="cx-tools">
        ${u.map(d=>a`<${Af} key=${d.name} ...${{tool:d,source:Mf(d),history:n}} />`)}
      </ul>`}
    <${pb} servers=${s.servers} />`}var Mf=({source:t,server:e})=>t==="mcp"?`MCP server ${e}`:ub[t]??t;function Af({tool:{name:t,tokens:e,description:n,parameters:s},source:o,history:i}){let r=`${ve(t)}, ${$(e)} tokens${o?`, ${_(o)}`:""}`;return a`<li>
    <${tt} name=${r} foldKey="tool-${t}" history=${i}>
      <p>${R(n)}</p>
      ${s&&a`<${ae} label="Parameters of ${t}" text=${R(JSON.stringify(s,null,2))} />`}
    <//>
  </li>`}function pb({servers:t}){return t.length===0?null:a`<h3>MCP servers</h3>
    <ul class="cx-servers">
      ${t.map(e=>a`<${hb} key=${e.name} server=${e} />`)}
    </ul>`}function hb({server:{name:t,url:e,command:n,status:s,tools:o,left_out:i,code:r,detail:l}}){let c=Object.entries(i??{});return a`<li>
    <strong>${_(t)}</strong>${" "}
    <${W} kind=${db[s]??""}>${fb[s]??s}<//>${" "}
    <code class="dim">${_(e??n??"")}</code>
    ${s==="ready"&&` ${$(o)} ${o===1?"tool":"tools"}`}
    ${r&&a` <code>${_(r)}</code> ${_(l??"")}`}
    ${c.length>0&&a`<ul>
      ${c.map(([u,d])=>a`<li key=${u}><code>${_(u)}</code> left out: ${_(d)}</li>`)}
    </ul>`}
  </li>`}var ra=50,mb=1500,$b=new Set(["placeholder","clip","summary"]);function Lf({state:t,history:e}){let n=ti(t),s=w(null),o=q(!1);gb(s,o);let i=No(()=>n.load());qn(()=>{e.version.value,!(!o.value||n.step.peek()!==null&&n.data.peek())&&i(n.data.peek()?mb:0)});let{value:r}=n.data;return a`<div class="cx-seen" ref=${s}>
    <${vb} seen=${n} history=${e} />
    ${n.problem.value&&a`<${F} problem=${n.problem.value} onRetry=${()=>n.load()} />`}
    ${!r&&!n.problem.value&&a`<p class="dim" aria-busy="true">Loading…</p>`}
    ${r&&a`<${yb} data=${r} state=${t} history=${e} />`}
  </div>`}function gb(t,e){v(()=>{let n=new IntersectionObserver(([s])=>e.value=s.isIntersecting,{rootMargin:"300px"});return n.observe(t.current),()=>n.disconnect()},[])}function vb({seen:t,history:e}){let{value:n}=t.step,s=e.steps.value.at(-1)?.step??0,o=l=>t.choose(Math.max(1,Math.min(s,l))),i=q(null),r=l=>{let c=Math.round(Number(l.target.value));i.value=null,c>=1&&o(c)};return a`<div class="cx-chooser" role="group" aria-label="Request to show">
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
  </div>`}function yb({data:t,state:e,history:n}){let{system:s,tools:o,messages:i}=t,r=i.filter(({reason:l})=>$b.has(l)).length;return a`<p class="numbers">
      ${t.step===null?"The next step would send":`Step ${$(t.step)} sent`} ${$(i.length)}
      ${" "}${i.length===1?"message":"messages"}
      ${r?`, ${$(r)} shortened`:""}, to ${_(t.model)}.
      ${" "}${$(t.tokens)} of ${$(t.usable)} usable tokens (${t.source}${t.step===null?"":" at the end of the step"}), generation ${$(t.generation)}.
    </p>
    <${_b} data=${t} />
    <${tt} name="System prompt, ${$(s.tokens)} tokens" foldKey="system" history=${n}>
      <${bb} sections=${s.sections??[]} />
      <${ae} label="System prompt" text=${R(s.text)} />
    <//>
    <${tt} name="${$(o.length)} tools, ${$(If(o))} tokens" foldKey="tools" history=${n}>
      <${Rf} tools=${o} state=${e} history=${n} />
    <//>
    ${i.length>0&&a`<div class="cx-item-heads dim" aria-hidden="true">
        <span>Model's view</span><span>Full history</span>
      </div>
      <${wb} messages=${i} state=${e} history=${n} />`}`}var If=t=>t.reduce((e,{tokens:n})=>e+n,0);function _b({data:t}){let e=df(t).filter(({tokens:s})=>s>0),n=Math.max(1,If(e));return a`<div class="cx-make-up">
    <div class="cx-make-up-bar" aria-hidden="true">
      ${e.map(({name:s,tokens:o})=>a`<span
          key=${s}
          class="cx-of-${s.toLowerCase()}"
          style=${{flexGrow:o}}
          title="${s}: ${$(o)}"
        ></span>`)}
    </div>
    <ul class="cx-legend numbers" aria-label="Estimated tokens by kind">
      ${e.map(({name:s,tokens:o,count:i})=>a`<li key=${s}>
          <span class="cx-key cx-of-${s.toLowerCase()}"></span>${s}${i>1?` (${$(i)})`:""}:
          ${" "}${oe(o)}, ${J(o/n)}
        </li>`)}
    </ul>
  </div>`}function bb({sections:t}){return t.length===0?null:a`<ul class="cx-sections numbers" aria-label="Parts of the system prompt">
    ${t.map(({source:e,tokens:n},s)=>a`<li key=${s}>
        <bdi>${_(e)}</bdi> <span class="dim">${$(n)} tokens</span>
      </li>`)}
  </ul>`}function wb({messages:t,state:e,history:n}){let s=q(1),o=w(new WeakMap),i=Math.ceil(t.length/ra);v(()=>{if(s.value>=i)return;let l=requestAnimationFrame(()=>s.value+=1);return()=>cancelAnimationFrame(l)},[s.value,i]);let r=l=>{let c=o.current;return c.has(l)||c.set(l,a`<${Tf} key=${l.message.id} item=${l} state=${e} history=${n} />`),c.get(l)};return a`<div class="cx-items" role="list" aria-busy=${s.value<i}>
    ${Array.from({length:Math.min(s.value,i)},(l,c)=>{let u=t.slice(c*ra,(c+1)*ra);return a`<div key=${c} class="cx-slice" role="presentation">${u.map(r)}</div>`})}
  </div>`}function Nf({retrying:t}){return t?a`<p class="retrying dim">
    Attempt ${t.attempt} failed: ${Pf(t)}; retrying ${Df(t)}
  </p>`:null}function ai({retrying:t}){return t?a`<p class="retrying dim">
    Compacting… ${Pf(t)} (attempt ${t.attempt}); trying again ${Df(t)}
  </p>`:null}var Pf=({detail:t})=>_(t).replace(/[ .;]+$/,"");function Df({until:t}){let e=Math.max(0,t-Le.value);return e>0?`in ${U(Math.ceil(e/1e3)*1e3)}`:"now"}function aa({round:t,state:e,history:n}){if(t.status==="running")return a`<${xb} round=${t} state=${e} />`;let s=n.failures.value.get(t.round)??[];return a`<div class="cx-round-body">
    <${kb} round=${t} history=${n} />
    ${kn(t)&&a`<${Ob} round=${t} state=${e} history=${n} />`}
    ${n.unmade.value?.round===t.round&&a`<${Tb} state=${e} history=${n} />`}
    <${Cb} failures=${s} />
    ${t.error&&s.length===0&&a`<p class="cx-bad-text">${_(t.error.code)}: ${R(t.error.detail)}</p>`}
    ${t.summary&&a`<${Mb} round=${t} state=${e} history=${n} />`}
    ${n.latest.value===t.round&&a`<${Ab} round=${t} state=${e} />`}
  </div>`}function xb({round:t,state:e}){let n=q(!1),s=e.session.value?.status!=="idle",o=async()=>{await H(b(e.id,"cancel")),P("Cancelled.")};return a`<div class="cx-round-body cx-at-work">
    <progress aria-label="Compaction ${t.round} is running"></progress>
    <p>
      Compacting ${$(t.tokens_before)} tokens… (${pt[t.reason]??t.reason}; policy
      ${" "}${t.policy}). You can still send messages.
    </p>
    <${ai} retrying=${e.working.value.get(t.round)?.retrying} />
    ${s?a`<button onClick=${()=>n.value=!0}>Cancel</button>`:a`<${C} onClick=${o}>Cancel<//>`}
    ${n.value&&a`<${Te}
      title="Cancel run?"
      text="The compaction is cancelled together with the current run. You can resume the run later."
      verb="Cancel run"
      dismiss="Keep running"
      onConfirm=${o}
      onClose=${()=>n.value=!1}
    />`}
  </div>`}function kb({round:t,history:e}){let{usage:n}=t,s=e.reverts.value.get(t.round),o=He(n)+n.output_tokens>0,i=[["When",pe(t.created_at)],["Why",pt[t.reason]??t.reason],["Policy",t.policy],["How",t.rung&&(xn[t.rung]??t.rung)],["Tokens",t.tokens_after!=null&&Sb(t)],["Messages compacted",t.status!=="discarded"&&$(t.messages_compacted)],["Outputs cleared",t.outputs_pruned>0&&$(t.outputs_pruned)],["Cost",o?gs(n):"$0, no model call"],["Tokens read",o&&Eb(n)],["Tokens written",o&&$(n.output_tokens)],["Took",t.duration_ms>0&&U(t.duration_ms)],["Reverted",s&&pe(s.at)]];return a`<dl class="cx-facts numbers">
    ${i.filter(([,r])=>r).map(([r,l])=>a`<div key=${r}><dt>${r}</dt><dd>${l}</dd></div>`)}
  </dl>`}function Sb(t){return`${$(t.tokens_before)} → ${$(t.tokens_after)} (${J(Ot(t))} less)`}function Eb(t){return`${$(He(t))}, ${J(We(t))} from the cache`}function Cb({failures:t}){return t.length===0?null:a`<ul class="cx-failures">
    ${t.map(({seq:e,rung:n,code:s,detail:o,next:i})=>a`<li key=${e}>
        <b>${xn[n]??n}</b> failed (${_(s)}: ${_(o)});
        ${" "}${i?a`next: ${xn[i]??i}.`:"nothing left to try."}
      </li>`)}
  </ul>`}function Ob({round:t,state:e,history:n}){let s=n.failures.value.get(t.round)?.findLast(({rung:i})=>i==="summary"),o=async()=>{await we(b(e.id,"compactions",String(t.round))),P(`Compaction ${t.round} reverted.`),await Ff(e,n,t.round)};return a`<p>
    <b>Summarized without a model.</b>
    ${s&&` ${_(s.detail)} (${_(s.code)})`}
    ${" "}${n.latest.value===t.round&&a`<${C} onClick=${o}>Redo with the model<//>`}
  </p>`}async function Ff(t,e,n){try{let{round:s}=await H(b(t.id,"compactions"),{});e.unmade.value=null,P(`Compaction ${s} requested.`)}catch(s){e.unmade.value={round:n,problem:s}}}function Tb({state:t,history:e}){let{round:n,problem:s}=e.unmade.value,o=()=>Ff(t,e,n);return a`<p role="alert">
    <span class="cx-bad-text">${R(s.message)}</span> The context is complete again and will be summarized when
    that is due. <${C} onClick=${o}>Compact now<//>
  </p>`}function Mb({round:t,state:e,history:n}){let s=t.status==="completed";return a`<div class="cx-sides">
    <section aria-label="Summary of compaction ${t.round}">
      <h4>Summary</h4>
      <div class="cx-summary" tabindex="0" role="region" aria-label="Summary">
        <${Ct} id="round-${t.round}-${e.id}" text=${t.summary} isWhole=${!0} />
      </div>
    </section>
    <section aria-label="Messages replaced by compaction ${t.round}">
      <h4>${s?"Replaces":"Replaced"} ${$(t.messages_compacted)} messages</h4>
      <${En} state=${e} history=${n} range=${t} total=${t.messages_compacted}
        isKept=${o=>s&&o.round===null&&!o.voided_at&&!o.is_summary} />
    </section>
  </div>`}function Ab({round:t,state:e}){let n=q(!1),s=t.tokens_before-t.tokens_after,o=async()=>{await we(b(e.id,"compactions",String(t.round))),P(`Compaction ${t.round} reverted.`)};return a`<p>
      <button class="danger" onClick=${()=>n.value=!0}>Revert compaction ${t.round}</button>
    </p>
    ${n.value&&a`<${Te}
      title="Revert compaction ${t.round}?"
      text="The model will see the summarized messages again, about ${$(s)} more tokens. If that is too much,
        the next step compacts again. Later messages stay."
      verb="Revert"
      onConfirm=${o}
      onClose=${()=>n.value=!1}
    />`}`}var la=12;function Wf({state:t,history:e}){let n=w(null),{value:s}=e.selected,o=s?.key,i=e.rounds.value.find(c=>`round-${c.round}`===o),r=e.prunes.value.find(c=>`prune-${c.seq}`===o);v(()=>n.current?.focus(),[s]);let l=()=>e.selected.value=null;return!i&&!r?null:a`<section class="cx-selected" aria-label="Selected in the chart">
    <header>
      <h3 ref=${n} tabindex="-1">${i?`Compaction ${i.round}`:`${vs(r)} cleared`}</h3>
      <button type="button" class="plain" aria-label="Close" onClick=${l}>×</button>
    </header>
    ${i?a`<${aa} round=${i} state=${t} history=${e} />`:a`<${zf} prune=${r} state=${t} />`}
  </section>`}function Bf({state:t,history:e}){let n=q(la),s=[...e.rounds.value.map(r=>({key:`round-${r.round}`,time:r.created_at,round:r})),...e.prunes.value.map(r=>({key:`prune-${r.seq}`,time:r.at,prune:r}))].sort((r,l)=>Date.parse(l.time)-Date.parse(r.time));if(s.length===0)return a`<p class="dim">None yet: the model sees the full history.</p>`;let o=s.filter(({key:r},l)=>l<n.value||e.isOpen(r)),i=s.length-o.length;return a`<ol class="cx-rounds">
      ${o.map(({key:r,round:l,prune:c})=>l?a`<${Rb} key=${r} id=${r} round=${l} state=${t} history=${e} />`:a`<${Lb} key=${r} id=${r} prune=${c} state=${t} history=${e} />`)}
    </ol>
    ${i>0&&a`<button onClick=${()=>n.value+=la*4}>Show ${$(Math.min(i,la*4))} of ${$(i)}
      ${" "}earlier</button>`}`}function Rb({id:t,round:e,state:n,history:s}){let o=s.isOpen(t),i=pt[e.reason]??e.reason;return a`<li class="cx-round" id=${t}>
    <h3>
      <button class="plain cx-round-head" aria-expanded=${o} onClick=${()=>s.toggle(t)}>
        <span class="cx-round-name"><${qf} text="◆" /> Compaction ${e.round}</span>
        <${W} kind=${kf[e.status]??""}>${e.status}<//>
        ${kn(e)&&a`<${W} kind="warn">Summarized without a model<//>`}
        <${Uf} item=${e} />
        <span class="dim cx-round-why">${e.rung?`${xn[e.rung]}; `:""}${i}</span>
        <span class="dim numbers">${Ib(e)}</span>
        <span class="dim"><${he} time=${e.created_at} /></span>
      </button>
    </h3>
    ${(o||e.status==="running")&&a`<${aa} round=${e} state=${n} history=${s} />`}
  </li>`}function Lb({id:t,prune:e,state:n,history:s}){let o=s.isOpen(t);return a`<li class="cx-round" id=${t}>
    <h3>
      <button class="plain cx-round-head" aria-expanded=${o} onClick=${()=>s.toggle(t)}>
        <span class="cx-round-name"><${qf} text="○" /> ${vs(e)} cleared</span>
        <${Uf} item=${e} />
        <span class="dim cx-round-why">${oi[e.reason]??e.reason}</span>
        <span class="dim"><${he} time=${e.at} /></span>
      </button>
    </h3>
    ${o&&a`<${zf} prune=${e} state=${n} />`}
  </li>`}function Ib({status:t,usage:e,duration_ms:n}){return t==="running"?"":[e.cost_usd!==null&&te(e.cost_usd),n>0&&U(n)].filter(Boolean).join(", ")}function qf({text:t}){return a`<span class="cx-sign" aria-hidden="true">${t}</span>`}function Uf({item:t}){let{tokens_before:e,tokens_after:n}=t;return n==null?a`<span class="numbers">${$(e)} tokens</span>`:a`<span class="numbers">${$(e)} → ${$(n)} (${J(Ot(t))} less)</span>`}function zf({prune:t,state:e}){return a`<div class="cx-round-body">
    <p>
      ${$(t.tokens_saved)} tokens freed without a model call. A placeholder tells the model how to see each of
      them again.
    </p>
    <ul class="cx-cleared">
      ${t.call_ids.map((n,s)=>a`<li key=${n}>
          <code>${_(t.tools?.[s]??"")}</code> <code class="dim">${n}</code>
          ${" "}<${Sn} sessionId=${e.id} callId=${n} />
        </li>`)}
    </ul>
  </div>`}function jf({state:t}){let e=vn(t);v(()=>e.watch(),[e]);let n=e.problem.value,s=e.progress.value;return a`<div class="context-view">
    ${n&&a`<${F} problem=${n} onRetry=${()=>e.retry()} />`}
    <section aria-labelledby="context-steps">
      <h2 id="context-steps">Context over steps</h2>
      <p>
        Each step sends the conversation to the model; when it nears the usable limit, Palimpsest shortens what is sent,
        with a summary of older messages (◆) or without old outputs (○), and the line drops.
      </p>
      <${Db} state=${t} history=${e} />
      ${s!==null&&!n&&a`<${Pb} loaded=${s} state=${t} />`}
      ${(s===null||s>0)&&a`<div class="cx-chart">
        <${Ef} history=${e} onPick=${o=>Nb(o,t,e)} />
        <${Wf} state=${t} history=${e} />
      </div>`}
    </section>
    <section aria-labelledby="context-rounds">
      <h2 id="context-rounds">Compactions and cleared outputs</h2>
      <${Of} state=${t} history=${e} />
      <${Bf} state=${t} history=${e} />
    </section>
    <section aria-labelledby="context-seen">
      <h2 id="context-seen" tabindex="-1">Model's view vs. full history</h2>
      <${Lf} state=${t} history=${e} />
    </section>
  </div>`}function Nb({mark:t,step:e},n,s){if(t){s.select(t.key);return}ti(n).choose(e.step);let o=document.getElementById("context-seen");o.scrollIntoView({block:"start"}),o.focus({preventScroll:!0})}function Pb({loaded:t,state:e}){let n=Math.max(t,e.session.value?.steps??0);return a`<p class="dim" role="status">
    <progress max=${n||1} value=${t} aria-label="Steps loaded"></progress>
    ${" "}${$(t)} of ${$(n)} steps loaded
  </p>`}function Db({state:t,history:e}){let{compaction:n}=t.session.value,s=e.rounds.value.filter(({status:c})=>c==="completed"),o=e.prunes.value,i=[...s,...o].reduce((c,{tokens_before:u,tokens_after:d})=>c+u-d,0),r=s.at(-1)?.created_at,l=s.length+o.length===0;return a`<p class="dim numbers">
    Policy ${n.policy}${l?": no compactions yet.":""}
    ${!l&&a`: ${$(s.length)} ${s.length===1?"compaction":"compactions"}
      ${o.length>0&&`, outputs cleared ${$(o.length)} ${o.length===1?"time":"times"}`};
      ${" "}${$(i)} tokens freed in total. ${r?`Last compaction: ${pe(r)}.`:""}`}
  </p>`}var ht=It(null);function Cn({id:t,head:e,kind:n="",children:s}){let o=z(ht),i=o.of(t).value;return a`<div class="fold ${n}">
    <button type="button" class="fold-head" aria-expanded=${i} onClick=${()=>o.toggle(t)}>
      <${Xe} name=${i?"down":"right"} />${e}
    </button>
    ${i&&a`<div class="fold-body">${s()}</div>`}
  </div>`}var Hf={pending:"○",in_progress:"◐",completed:"●"},Kf={pending:"to do",in_progress:"in progress",completed:"done"};function Gf({state:t}){let e=t.plan.value;if(!e?.length)return null;let n=e.filter(({status:i})=>i==="completed").length,s=e.find(({status:i})=>i==="in_progress"),o=a`<span>Plan</span> <span class="dim numbers">${n} of ${e.length} done</span>
    ${s&&a`<span class="plan-current">${_(String(s.text))}</span>`}`;return a`<section class="plan" aria-label="Plan">
    <${ht.Provider} value=${t.transcript.reading.planFolds}>
      <${Cn} id="plan" head=${o}>
        ${()=>a`<ol class="plan-items">
          ${e.map((i,r)=>a`<${Fb} key=${r} item=${i} />`)}
        </ol>`}
      <//>
    <//>
  </section>`}function Fb({item:{text:t,status:e="pending"}}){return a`<li class=${e}>
    <span aria-hidden="true">${Hf[e]??Hf.pending}</span>
    <span>${_(String(t))}<span class="hidden">, ${Kf[e]??Kf.pending}</span></span>
  </li>`}var Wb=10;function Vf({state:t}){v(()=>{Ld(t).catch(()=>{})},[t]);let e=Br(t).value;if(!e)return null;let{status:n,outcome:s}=t.session.value,o=n==="idle"&&s==="failed"&&e.status==="failed";return a`<div class="source-line ${e.status}">
    <p role="status">${Bb(e,n)}</p>
    ${o&&a`<${C} onClick=${()=>H(b(t.id,"resume"))}>Retry<//>`}
  </div>`}function Bb({status:t,url:e="the repository",ref:n,commit:s,detail:o},i){let r=a`<code>${_(e)}</code>${n&&a`, <code>${_(n)}</code>`}`;return t==="failed"?a`Could not clone ${r}: ${_(o)}`:t==="cloned"?a`Cloned ${r} at <code title=${s}>${s.slice(0,Wb)}</code>`:i==="idle"?a`Stopped cloning ${r}`:a`Cloning ${r}…`}var qb=409,li=new Map;function Ub(t){return li.has(t)||li.set(t,g("")),li.get(t)}function Yf({state:t}){let e=t.clientCalls.value,n=w(null),{decidedHere:s}=kr(e,n),o=async(i,r)=>{s.add(i);try{await H(b(t.id,"tool-calls",i,"result"),r)}catch(l){if(l.status!==qb)throw s.delete(i),l;P("This call already has a result.")}li.delete(i),Po(t,i)};return a`<p class="hidden" role="status">${zb(e)}</p>
    <section class="approvals" aria-label="Calls of client tools" ref=${n} hidden=${e.length===0}>
      ${e.map(i=>a`<${jb} key=${i.call_id} call=${i} resolve=${o} />`)}
    </section>`}var zb=t=>t.length?`Waiting for results: ${t.map(({name:e})=>ve(e)).join(", ")}.`:"";function jb({call:t,resolve:e}){let{call_id:n,name:s,arguments:o,expires_at:i}=t,r=L(),l=Ub(n),c=!l.value.trim();return a`<article class="approval" aria-labelledby=${r} data-call-id=${n}>
    <header>
      <h2 id=${r} tabindex="-1">Result of <code>${ve(s)}</code></h2>
      ${i&&a`<${Sr} until=${Date.parse(i)} verb="times out" end="timed out" />`}
    </header>
    <p class="dim">A client carries out this call and posts its result. You can post it here instead.</p>
    <${mn} name=${s} args=${o} />
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
      <${C} kind="primary" onClick=${()=>e(n,{output:l.value})}>Post result<//>
      <${C} kind="danger" disabled=${c} onClick=${()=>e(n,{error:l.value})}>
        Post as error
      <//>
    </footer>
  </article>`}function ci(t,e){M(()=>{let{style:n}=t.current;n.height="auto",n.height=`${t.current.scrollHeight+t.current.offsetHeight-t.current.clientHeight}px`},[e])}var _s={steer:"Steer",follow_up:"Follow-up",interrupt:"Interrupt"},Jf=t=>_s[t]??t,Hb={awaiting_approval:"your decision",awaiting_client:"the client's results"};function ui(t,{status:e,compaction:n}){if(e==="idle")return"Starts a run";let s=Hb[e];return t==="steer"?s?`Sent after ${s}`:"Sent before the next step":t==="follow_up"?"Starts its own run after this one":s?"Cancels the calls above and is sent at once":n?.in_progress?"Ends the step once the compaction is done":"Ends this step now and keeps its output"}var Kb=300,ca=new WeakMap,ua=new Set;addEventListener("pagehide",()=>{for(let t of ua)t.store()});function di(t){return ca.has(t)||ca.set(t,new da(t)),ca.get(t)}function Xf(t,e){try{sessionStorage.setItem(Qf(t),JSON.stringify({text:e}))}catch{}}var Qf=t=>`palimpsest.draft.${t}`,da=class{text=g("");attachments=new tn;mode=g("steer");sending=g(!1);failure=g(null);#e;#t=null;#n=null;constructor(e){this.#e=e,this.#c(),Y(()=>this.#i(e.queue.value,e.transcript.order.value))}write(e){this.text.value=e,this.#l()}choose(e){this.mode.value=e,this.#l()}append(e){let n=this.text.value.trimEnd();this.write(n?`${n}

${e}`:e)}async send(){let e=this.attachments.items.value,n=this.text.value;if(this.sending.value||!n.trim()&&e.length===0)return;let s=this.#t=this.#s(n,e.map(({key:o})=>o));this.store(),this.sending.value=!0,this.failure.value=null;try{let o=await Gs(n,e);await H(b(this.#e.id,"queue"),{id:s.id,content:o,mode:this.mode.value}),this.#a(s),this.#e.transcript.followNewest().catch(()=>{})}catch(o){this.#t===s&&this.#o(o)}finally{this.sending.value=!1}}#s(e,n){let s=this.#t;return s?.content===e&&(s.images??[]).join()===n.join()?s:{id:en(),content:e,images:n}}#o(e){e.code==="id_in_use"&&(this.#t=null),this.failure.value={problem:e,at:st()}}#i(e,n){let s=this.#t;s&&(e.some(({id:o})=>o===s.id)||n.includes(s.id))&&this.#a(s)}#a(e){this.#t===e&&(this.#t=null,D(()=>{let n=this.text.peek();n.startsWith(e.content)&&(this.text.value=n.slice(e.content.length).trimStart()),this.attachments.remove(...e.images??[]),this.mode.peek()==="interrupt"&&(this.mode.value="steer"),this.failure.value=null}),this.store())}get#r(){return Qf(this.#e.id)}#c(){try{let e=JSON.parse(sessionStorage.getItem(this.#r)??"{}");this.text.value=e.text??"",this.mode.value=e.mode??"steer",this.#t=e.attempt??null}catch{}}#l(){clearTimeout(this.#n),this.#n=setTimeout(()=>this.store(),Kb),ua.add(this)}store(){clearTimeout(this.#n),ua.delete(this);let e={text:this.text.peek(),mode:this.mode.peek(),attempt:this.#t};try{e.text||e.attempt?sessionStorage.setItem(this.#r,JSON.stringify(e)):sessionStorage.removeItem(this.#r)}catch{}}};var Zf=1e6,fa=matchMedia("(pointer: coarse)");function ep({state:t,children:e}){let n=di(t),s=n.text.value,{attachments:o}=n,i=!s.trim()&&o.items.value.length===0,r=w(null);ci(r,s);let l=L(),{isOver:c,...u}=io(({dataTransfer:S})=>o.add([...S.files])),d=async()=>{await n.send(),r.current?.focus()},f=S=>{S.key!=="Enter"||S.isComposing||S.keyCode===229||S.shiftKey||S.altKey||fa.matches&&!S.ctrlKey&&!S.metaKey||(S.preventDefault(),d())},h=n.sending.value,p=s.length>Zf,m=p?`A message can have at most ${$(Zf)} characters; this one has ${$(s.length)}.`:ui(n.mode.value,t.session.value);return a`<form
    class="composer ${c?"drop-target":""}"
    aria-label="Send a message"
    onSubmit=${S=>{S.preventDefault(),d()}}
    ...${u}
  >
    <${Vb} draft=${n} />
    <label class="hidden" for="${l}-text">Message</label>
    <textarea
      ref=${r}
      id="${l}-text"
      rows="1"
      placeholder=${`Message the agent${fa.matches?"":" · Shift+Enter: new line"}`}
      value=${s}
      aria-describedby="${l}-hint"
      enterkeyhint=${fa.matches?"enter":"send"}
      onInput=${S=>n.write(S.target.value)}
      onKeyDown=${f}
      onPaste=${oo(o)}
    ></textarea>
    <${so} attachments=${o} />
    <div class="composer-foot">
      ${t.session.value.status!=="idle"&&a`<${Gb} draft=${n} name="${l}-mode" />`}
      <p class="dim" id="${l}-hint" title=${m}>${m}</p>
      ${e}
      <${no} attachments=${o} isBrief=${!0} />
      <button type="submit" class="primary" disabled=${h||p||i} aria-busy=${h}>
        ${h?"Sending…":"Send"}
      </button>
    </div>
  </form>`}function Gb({draft:t,name:e}){return a`<fieldset class="segments">
    <legend class="hidden">How the message is delivered</legend>
    ${Object.entries(_s).map(([n,s])=>a`<label key=${n}>
        <input
          type="radio"
          name=${e}
          value=${n}
          checked=${t.mode.value===n}
          onChange=${()=>t.choose(n)}
        />
        <span>${s}</span>
      </label>`)}
  </fieldset>`}function Vb({draft:t}){let e=t.failure.value;if(!e)return null;let{problem:n,at:s}=e,{retryAfterS:o}=n;return a`<div class="send-failure">
    <p role="alert">Not sent; your message is kept: ${n.message}</p>
    ${n.status===0&&a`<p>Safe to resend; it won't be duplicated</p>`}
    ${o!=null&&a`<p role="timer">${Yb(s+o*1e3-Le.value)}</p>`}
  </div>`}function Yb(t){return t>0?`Try again in ${U(Math.ceil(t/1e3)*1e3)}`:"You can try again now"}var bs=512*1024,Jb=4,pa=new WeakMap;function fi(t){return pa.has(t)||pa.set(t,new ha(t.id)),pa.get(t)}var Ge=t=>t.slice(0,Math.max(0,t.lastIndexOf("/"))),mt=t=>t.slice(t.lastIndexOf("/")+1),ma=(t,e)=>t?`${t}/${e}`:e,ha=class{folders=g(new Map);expanded=g(new Set);refreshing=g(!1);file=g(null);uploads=g([]);#e;#t=new Map;#n=0;#s=!1;#o=0;constructor(e){this.#e=e}async load(e){let n=(this.#t.get(e)??0)+1;this.#t.set(e,n),this.#i(e,{loading:!0});try{let s=await E(`${b(this.#e,"files")}?${new URLSearchParams({path:e})}`);if(this.#t.get(e)!==n)return;let o=s.items.toSorted(Xb);this.#i(e,{items:o,truncated:s.truncated,problem:null,loading:!1})}catch(s){this.#t.get(e)===n&&this.#i(e,{problem:s,loading:!1})}}#i(e,n){let s=this.folders.value.get(e)??{items:null,truncated:!1,problem:null};this.folders.value=new Map(this.folders.value).set(e,{...s,...n})}entry(e){return this.folders.value.get(Ge(e))?.items?.find(n=>n.path===e)}async has(e){if(this.entry(e))return!0;let{items:n,truncated:s,problem:o}=this.folders.value.get(Ge(e))??{};if(n&&!s&&!o)return!1;try{return await be("GET",Qt(this.#e,e),{headers:{Range:"bytes=0-0"}}),!0}catch(i){return i.status!==404}}open(e){return this.expanded.value=new Set(this.expanded.value).add(e),this.load(e)}close(e){let n=new Set(this.expanded.value);n.delete(e),this.expanded.value=n}async refresh(){if(this.#s=!0,!this.refreshing.value){this.refreshing.value=!0;try{for(;this.#s;)this.#s=!1,await this.#a()}finally{this.refreshing.value=!1}}}async#a(){await this.load("");let e=[...this.expanded.value].filter(s=>this.#r(s)).sort(),n=async()=>{for(let s=e.shift();s!==void 0;s=e.shift())await this.load(s)};await Promise.all(Array.from({length:Jb},n)),this.#c(),this.file.value&&await this.#l(this.file.value.path)}#r(e){let n=this.folders.value.get(Ge(e));return!n?.items||n.items.some(s=>s.path===e&&s.type==="directory")}#c(){let e=n=>n===""||this.#r(n);D(()=>{this.expanded.value=new Set([...this.expanded.value].filter(e)),this.folders.value=new Map([...this.folders.value].filter(([n])=>e(n)))})}async show(e){this.file.value={path:e,loading:!0,problem:null,text:null,size:null},await this.#l(e)}hide(){this.#n+=1,this.file.value=null}async#l(e){let n=++this.#n,s;try{s={problem:null,...await this.#d(e)}}catch(c){s={problem:c,text:null,size:null}}if(this.#n!==n)return;let{text:o,size:i,problem:r}=this.file.value;(!(o===s.text&&i===s.size&&r?.code===s.problem?.code)||this.file.value.loading)&&(this.file.value={path:e,loading:!1,...s})}async#d(e){try{let n=this.entry(e)?.size===0?{}:{Range:`bytes=0-${bs-1}`},s=await be("GET",Qt(this.#e,e),{headers:n}),o=new Uint8Array(await s.arrayBuffer()),i=s.headers.get("Content-Range")?.split("/")[1],r=i?Number(i):o.length;return{size:r,text:Qb(o.subarray(0,bs),r>o.length)}}catch(n){if(n.status===416)return{size:0,text:""};throw n}}async upload(e,n){let s=e.map(o=>[o,this.#f(ma(n,o.name))]);for(let[o,i]of s){let{path:r}=this.uploads.value.find(l=>l.id===i);try{await Pl(Qt(this.#e,r),o,l=>this.#u(i,{share:l})),this.#u(i,{share:1,status:"done"})}catch(l){this.#u(i,{status:"failed",detail:l.message})}}await this.refresh()}#f(e){let n=++this.#o;return this.uploads.value=[...this.uploads.value,{id:n,path:e,share:0,status:"sending",detail:""}],n}#u(e,n){this.uploads.value=this.uploads.value.map(s=>s.id===e?{...s,...n}:s)}clearUploads(){this.uploads.value=this.uploads.value.filter(({status:e})=>e==="sending")}},tp=null;function Xb(t,e){let n=s=>s.type==="directory";return n(t)!==n(e)?n(t)?-1:1:(tp??=new Intl.Collator("en",{numeric:!0}),tp.compare(mt(t.path),mt(e.path)))}function Qb(t,e){if(t.includes(0))return null;try{return new TextDecoder("utf-8",{fatal:!0}).decode(t,{stream:e})}catch{return null}}var Zb=/^\[file in the workspace: (.+)\]$/gm;function np({state:t,text:e}){let n=[],s=0;for(let{0:o,1:i,index:r}of e.matchAll(Zb))n.push({text:e.slice(s,r)},{path:i}),s=r+o.length;return n.push({text:e.slice(s)}),n.map((o,i)=>o.path?a`<${sp} key=${i} state=${t} path=${o.path} />`:a`<${pi} key=${i} text=${o.text} />`)}function pi({text:t}){let e=St(R(t.replace(/^\n|\n$/g,"")));return e.length===1&&e[0]===""?null:e.map((n,s)=>a`<div key=${s} class="as-is block" dir="auto">${n}</div>`)}function sp({state:t,path:e}){return a`<p class="file-link">
    File: <a href=${B(t.id,"files")} onClick=${()=>{fi(t).show(e)}}>
      <code><bdi>${_(e)}</bdi></code>
    </a>
  </p>`}function op({state:t,content:e}){return typeof e=="string"?R(e):a`${e.map((n,s)=>n.type==="text"?a`<${pi} key=${s} text=${n.text} />`:n.type==="file"?a`<${sp} key=${s} state=${t} path=${n.path} />`:null)}
    <${qt} sessionId=${t.id} parts=${e} />`}var $a=({type:t})=>t==="text",ws=t=>typeof t!="string"&&!t.every($a);function hi(t){return typeof t=="string"?t:t.filter($a).map(({text:e})=>e).join(`

`)}var ip=(t,e)=>e.trim()!==""||ws(t);async function rp(t,e,n){if(!ws(e))return n;let s=e.filter(i=>!$a(i)),o=await Promise.all(s.map(i=>ew(t,i)));return n.trim()?[{type:"text",text:n},...o]:o}async function ew(t,{type:e,path:n,digest:s,media_type:o}){if(e!=="image")return{type:e,path:n};let i=await be("GET",b(t,"images",s));return{type:e,media_type:o,data:await Ks(await i.blob())}}var ap=250,tw=200;function lp({state:t}){let e=sw(t.queue.value),[n,s]=y(null),o=w(null),i=L(),r=w(null),l=nw(e,r),c=f=>s({...f,text:hi(f.content)}),u=()=>{o.current=n.id,s(null)},d=n&&!e.some(({id:f})=>f===n.id)?n:null;return e.length===0&&!d?null:a`<section class="queue" aria-labelledby=${i} ref=${r}>
    <h2 id=${i}>Pending messages <span class="dim">${e.length}</span></h2>
    <ol>
      ${e.map(f=>n?.id===f.id?a`<${aw} key=${f.id} ...${{state:t,item:f,editing:n,onChange:s,onClose:u}} />`:a`<${iw}
              key=${f.id}
              ...${{state:t,item:f,edited:o,withdrawing:l,onEdit:()=>c(f)}}
            />`)}
    </ol>
    ${d&&a`<${lw} state=${t} text=${d.text} onClose=${()=>s(null)} />`}
    <p class="dim">${ow(e,t.session.value)}</p>
  </section>`}function nw(t,e){let n=w(null),s=w([]);return v(()=>{let o=n.current,i=s.current.indexOf(o);if(s.current=t.map(l=>l.id),o===null||s.current.includes(o)||(n.current=null,document.activeElement!==document.body))return;let r=e.current?.querySelectorAll(".queue-text")??[];(r[Math.min(i,r.length-1)]??document.querySelector(".composer textarea"))?.focus()}),n}function sw(t){let e=w(new Map),[,n]=y(0),s=performance.now(),o=new Map(t.map(({id:l})=>[l,e.current.get(l)??s]));e.current=o;let i=({id:l})=>s-o.get(l)<ap,r=t.some(i);return v(()=>{if(!r)return;let l=setTimeout(()=>n(s),ap);return()=>clearTimeout(l)}),t.filter(l=>!i(l))}function ow(t,{status:e,outcome:n}){let s=e==="idle"&&n!=="completed",o=[];return s&&o.push("The run has ended","They'll be sent when you resume"),t.some(({mode:i})=>i==="follow_up")&&o.push("Follow-ups run last, one at a time"),o.join(". ")}function iw({state:t,item:e,edited:n,withdrawing:s,onEdit:o}){let[i,r]=y(!1),l=w(null);v(()=>{n.current===e.id&&(n.current=null,l.current.focus())},[]);let c=async()=>{s.current=e.id;try{await we(b(t.id,"queue",e.id))}catch(u){throw s.current=null,u}};return a`<li data-message-id=${e.id}>
    <${W} kind=${e.mode==="interrupt"?"warn":""}>${Jf(e.mode)}<//>
    <div class="queue-text" tabindex="0" role="group" aria-label="Pending message">
      <${op} state=${t} content=${e.content} />
    </div>
    <div class="queue-buttons">
      <button type="button" ref=${l} onClick=${o}>Edit</button>
      <${C} onClick=${()=>rw(e)?r(!0):c()}>Withdraw<//>
    </div>
    ${i&&a`<${Te}
      title="Withdraw this message?"
      text="It won't be delivered, and its content will be lost."
      verb="Withdraw"
      onConfirm=${c}
      onClose=${()=>r(!1)}
    />`}
  </li>`}var rw=({content:t})=>ws(t)||hi(t).length>tw;function aw({state:t,item:e,editing:n,onChange:s,onClose:o}){let i=w(null),r=L();ci(i,n.text),v(()=>i.current.focus(),[]);async function l(){let u={};n.text!==hi(e.content)&&(u.content=await rp(t.id,e.content,n.text)),n.mode!==e.mode&&(u.mode=n.mode),Object.keys(u).length&&await Re(b(t.id,"queue",e.id),u),o()}let c=u=>{u.key!=="Escape"||u.isComposing||(u.stopPropagation(),o())};return a`<li class="editing" data-message-id=${e.id} onKeyDown=${c}>
    <label class="hidden" for="${r}-text">Edited message</label>
    <textarea
      ref=${i}
      id="${r}-text"
      value=${n.text}
      onInput=${u=>s({...n,text:u.target.value})}
    ></textarea>
    ${ws(e.content)&&a`<p class="dim">Images and files stay as they are.</p>`}
    <div class="queue-buttons">
      <label class="hidden" for="${r}-mode">Mode</label>
      <select
        id="${r}-mode"
        value=${n.mode}
        onChange=${u=>s({...n,mode:u.target.value})}
      >
        ${Object.entries(_s).map(([u,d])=>a`<option key=${u} value=${u}>${d}</option>`)}
      </select>
      <${C} kind="primary" disabled=${!ip(e.content,n.text)} onClick=${l}>Save<//>
      <button type="button" onClick=${o}>Cancel</button>
    </div>
    <p class="dim">${ui(n.mode,t.session.value)}</p>
  </li>`}function lw({state:t,text:e,onClose:n}){return a`<div class="overtaken" role="alert">
    <p>The message you were editing is no longer pending: it was delivered unchanged or withdrawn.</p>
    <button type="button" onClick=${()=>{di(t).append(e),P("Your text is in the message box."),n()}}>Move my text to the message box</button>
    <button type="button" onClick=${n}>Discard my text</button>
  </div>`}var cw={max_steps:{label:"Max steps per run",unit:"steps",whole:!0,ofRun:!0},max_seconds:{label:"Max seconds per run",unit:"seconds",ofRun:!0},max_tokens:{label:"Max total tokens",unit:"tokens",whole:!0},max_cost_usd:{label:"Max total cost ($)",unit:"US dollars"}},cp={failed:"The run failed.",cancelled:"The run was cancelled. Its output so far is kept.",interrupted:"The run was interrupted, for example by a server restart.",limit_reached:"The run reached a limit."};function up({state:t,session:e}){let{outcome:n,error:s}=e;if(!cp[n])return null;let o=n==="limit_reached"?cw[s?.code]:void 0,i=()=>H(b(t.id,"resume")),r=o?`Resume with ${dw(s.code,e)}`:"Resume";return a`<section class="run-end ${n}" aria-label="How the last run ended">
    <p role="status">${uw(n,s,e)}</p>
    ${s&&n==="failed"&&a`<p class="dim">${_(String(s.code))}</p>`}
    <div class="run-end-ways">
      ${o&&a`<${fw} ...${{state:t,session:e,name:s.code,limit:o,onRaised:i}} />`}
      ${(!o||o.ofRun)&&a`<${C} kind=${o?"":"primary"} onClick=${i}>${r}<//>`}
    </div>
  </section>`}function uw(t,e,n){let s=n.limits;switch(t==="limit_reached"?e?.code:null){case"max_steps":return`Stopped at the ${$(e.limit??s.max_steps)}-step limit`;case"max_seconds":return`Stopped at the time limit of ${U((e.limit??s.max_seconds)*1e3)}`;case"max_tokens":return`Stopped at the ${$(e.limit??s.max_tokens)}-token limit`;case"max_cost_usd":return`Stopped at the ${te(e.limit??s.max_cost_usd)} cost limit`;default:return[cp[t],e?.detail&&_(e.detail)].filter(Boolean).join(" ")}}function dw(t,{limits:e}){return e[t]===null?"no limit":t==="max_seconds"?`another ${U(e[t]*1e3)}`:e[t]===1?"1 more step":`${$(e[t])} more steps`}function fw({state:t,session:e,name:n,limit:s,onRaised:o}){let i=L(),[r,l]=y(String((e.limits[n]??0)*2||"")),c=Number(r),u=r!==""&&c>0&&(!s.whole||Number.isInteger(c));async function d(){await Re(b(t.id),{limits:{[n]:c}}),await o()}return a`<div class="raise">
    <label for=${i}>${s.label}</label>
    <input
      id=${i}
      type="number"
      inputmode=${s.whole?"numeric":"decimal"}
      min="0"
      step=${s.whole?1:"any"}
      value=${r}
      onInput=${f=>l(f.target.value)}
    />
    <${C} kind="primary" disabled=${!u} onClick=${d}>Raise limit and resume<//>
  </div>`}function dp({state:t}){let e=t.session.value,n=w(null);return hw(n),e?a`<section class="steering" aria-label="Steer this session" tabindex="-1" ref=${n}>
    <div class="steering-scroll">
      <${ko} state=${t} />
      <${Yf} state=${t} />
      <${lp} state=${t} />
      <${Nf} retrying=${t.retrying.value} />
      ${[...t.working.value.values()].map(({round:s,background:o,retrying:i})=>!o&&a`<${ai} key=${s} retrying=${i} />`)}
      ${e.status==="idle"&&a`<${up} state=${t} session=${e} />`}
    </div>
    <${e.kind==="subagent"?pw:ep} state=${t}>
      ${e.status!=="idle"&&a`<${mw} key=${t.runs.value} state=${t} session=${e} />`}
    <//>
  </section>`:null}function pw({state:t,children:e}){return a`<div class="composer">
    <p>
      A sub-agent gets its task from <a href=${B(t.session.value.parent_id)}>its session</a>, and takes no
      messages.
    </p>
    ${e}
  </div>`}function hw(t){let e=t.current?.querySelector(".working, .run-end")?.contains(document.activeElement);M(()=>{e&&document.activeElement===document.body&&t.current.focus({preventScroll:!0})})}function mw({state:t,session:e}){let[n,s]=y(!1),[o,i]=y(!1),r=t.queue.value.length,l=t.follower.value?.state.value==="offline",c=n?"Cancelling…":$w(e);async function u(){n||(await H(b(t.id,"cancel"),{clear_queue:o&&r>0}),s(!0))}return a`<div class="working">
    <p role="status"><span class="pulse" aria-hidden="true"></span>${l&&"Last known: "}${c}</p>
    ${r>0&&a`<label class="check">
      <input type="checkbox" checked=${o} onChange=${d=>i(d.target.checked)} />
      Clear queue (${r})
    </label>`}
    <${C} kind="danger" ...${n&&{"aria-disabled":"true"}} onClick=${u}>Cancel run<//>
  </div>`}function $w({status:t,steps:e,compaction:n}){return t==="awaiting_approval"?"Waiting for you":t==="awaiting_client"?"Waiting for a client":n.in_progress?"Compacting the context":e?`Working, ${$(e)} ${e===1?"step":"steps"} done`:"Working"}var gw=/^\u001b\[([\d;:]*)m$/,mi=["gray","red","green","yellow","blue","magenta","cyan",null],fp={1:"bold",2:"faint",3:"italic",4:"underline"},pp={22:["bold","faint"],23:["italic"],24:["underline"]},vw=2e4;function xs(t){if(!t.includes("\x1B["))return{text:R(t),tokens:[]};let e=[],[n,s,o]=["",{},0],i=l=>{let c=n.length;n+=R(l);let u=yw(s);u&&n.length>c&&e.length<vw&&e.push({start:c,end:n.length,scope:u})},r=t.replace(/\r(?=(?:\u001b\[[\d;:]*m)*\n)/g,"");for(let{0:l,index:c}of r.matchAll(Ai)){i(r.slice(o,c)),o=c+l.length;let[,u]=gw.exec(l)??[];u!==void 0&&(s=_w(s,u.split(/[;:]/).map(Number)))}return i(r.slice(o)),{text:n,tokens:e}}function yw({color:t,...e}){return[t,...Object.keys(e).filter(s=>e[s])].filter(Boolean).map(s=>`ansi-${s}`).join(" ")}function _w(t,e){let n=t;for(let s=0;s<e.length;s+=1){let o=e[s];if(o===0)n={};else if(fp[o])n={...n,[fp[o]]:!0};else if(pp[o])n={...n,...Object.fromEntries(pp[o].map(i=>[i,!1]))};else if(o===39)n={...n,color:null};else if(o>=30&&o<=37)n={...n,color:mi[o-30]};else if(o>=90&&o<=97)n={...n,color:mi[o-90]};else if(o===38||o===48){let i=e[s+1]===5,r=i?bw(e[s+2]):hp(e.slice(s+2,s+5));o===38&&(n={...n,color:r}),s+=i?2:4}}return n}function bw(t){if(!(t<232))return"gray";if(t<16)return mi[t%8];let e=t-16;return hp([Math.floor(e/36),Math.floor(e/6)%6,e%6].map(n=>n*51))}function hp([t=0,e=0,n=0]){let[s,o]=[Math.min(t,e,n),Math.max(t,e,n)];if(o-s<48)return o>160?null:"gray";let i=r=>r>(s+o)/2?1:0;return mi[i(t)+2*i(e)+4*i(n)]}var mp=10;function On({count:t,height:e,row:n,box:s,onWidth:o,inner:i={},...r}){let l=w(null),c=s??l,[u,d]=y({top:0,height:0});M(()=>{let x=c.current,S=()=>{d({top:x.scrollTop,height:x.clientHeight}),o?.(x.clientWidth)};S();let T=new ResizeObserver(S);return T.observe(x),x.addEventListener("scroll",S,{passive:!0}),()=>{T.disconnect(),x.removeEventListener("scroll",S)}},[]);let f=Math.max(0,Math.min(t,Math.floor(u.top/e))-mp),h=Math.min(t,Math.ceil((u.top+u.height)/e)+mp),p=Array.from({length:Math.max(0,h-f)},(x,S)=>n(f+S)),m={transform:`translateY(${f*e}px)`};return a`<div ref=${c} ...${r}>
    <div ...${i} style=${{height:`${t*e}px`}}>
      <div class="rows-in-sight" role="presentation" style=${m}>${p}</div>
    </div>
  </div>`}function Tn(t,e,n){let s=e*n;s<t.scrollTop?t.scrollTop=s:s+n>t.scrollTop+t.clientHeight&&(t.scrollTop=s+n-t.clientHeight)}var ww=256*1024,xw=16*1024*1024,kw=600,$p=20,Sw=8,Ew=20,gp=1e4,Mn=It(null);function vp({path:t,onClose:e}){let n=N(()=>new ga(t),[t]),[{text:s,tokens:o},i]=y({text:"",tokens:[]}),[r,l]=y(null),c=async(T=!1)=>{try{do{let k=await n.next();k&&i(O=>Aw(O,xs(k)))}while(T&&!n.isEnd);l(null)}catch(k){l(k)}};v(()=>{c()},[n]);let u=w(null),d=({currentTarget:{scrollHeight:T,scrollTop:k,clientHeight:O}})=>{!r&&!n.isReading&&T-k-O<kw&&c()},[f,h]=y(80),p=T=>h(Math.max(Ew,Math.floor(T/bn())-Sw)),m=N(()=>wo(s,f),[s,f]),x=Cw(s,T=>Tn(u.current,Mw(m,T),$p)),S=T=>{let[k,O]=[m.starts[T],m.ends[T]],I=Ee(s,k,O,x.tokens),V=I.some(({scope:le})=>le);return a`<div key=${T} class="line">
      <span class="line-number" aria-hidden="true">${m.lines[T]||""}</span>
      <code>${(V?I:Ee(s,k,O,o)).map(as)}</code>
    </div>`};return a`<${ee} title="Full output" wide=${!0} onClose=${e}>
    <${Tw} find=${x} onFirst=${()=>c(!0)} />
    <${On}
      box=${u}
      class="whole-output"
      tabindex="0"
      role="region"
      aria-label="Full output"
      count=${m.starts.length}
      height=${$p}
      row=${S}
      onWidth=${p}
      onScroll=${d}
    />
    <footer>
      <span class="dim">${Rw(n,r)}</span>
      ${!n.isEnd&&a`<${C} onClick=${()=>c()}>Load more<//>`}
      <${kt} text=${s} name="output" />
      <a class="button" href=${t} download>Download</a>
    </footer>
  <//>`}function Cw(t,e){let[n,s]=y(""),[o,i]=y(0),r=N(()=>Ow(t,n),[t,n]),l=N(()=>r.map((d,f)=>({...d,scope:f===o?"match current":"match"})),[r,o]),c=d=>{if(r.length===0)return;let f=(d+r.length)%r.length;i(f),e(r[f].start)},u=r[0]?.start;return v(()=>{u!==void 0&&c(0)},[n,u===void 0]),{query:n,setQuery:s,at:o,matches:r,tokens:l,next:()=>c(o+1),previous:()=>c(o-1)}}function Ow(t,e){if(e==="")return[];let n=new RegExp(e.replace(/[.*+?^${}()|[\]\\]/g,"\\$&"),"gi"),s=[];for(let{0:o,index:i}of t.matchAll(n))if(s.push({start:i,end:i+o.length})===gp)break;return s}function Tw({find:t,onFirst:e}){let{query:n,at:s,matches:o}=t,i=w(null);v(()=>{let d=f=>{!(f.ctrlKey||f.metaKey)||f.key!=="f"||(f.preventDefault(),i.current.select())};return addEventListener("keydown",d),()=>removeEventListener("keydown",d)},[]);let r=({target:d})=>{n===""&&e(),t.setQuery(d.value)},l=d=>{d.key!=="Enter"||d.isComposing||(d.preventDefault(),d.shiftKey?t.previous():t.next())},c=o.length===gp?"+":"",u=o.length?`${$(s+1)} of ${$(o.length)}${c}`:"No matches";return a`<div class="find-bar" role="search">
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
  </div>`}function Mw({starts:t},e){let[n,s]=[0,t.length];for(;s-n>1;){let o=n+s>>1;t[o]<=e?n=o:s=o}return n}function Aw(t,{text:e,tokens:n}){let s=i=>i+t.text.length,o=n.map(({start:i,end:r,scope:l})=>({start:s(i),end:s(r),scope:l}));return{text:t.text+e,tokens:[...t.tokens,...o]}}function Rw(t,e){if(e)return e.message;if(t.size===null)return"Loading…";if(t.read>=t.size)return`All ${j(t.size)} loaded`;let n=t.isEnd?"; download it to see the rest":"";return`${j(t.read)} of ${j(t.size)} loaded${n}`}var ga=class{read=0;size=null;#e;#t=new TextDecoder;#n="";#s=Promise.resolve();isReading=!1;constructor(e){this.#e=e}get isEnd(){return this.size!==null&&this.read>=Math.min(this.size,xw)}next(){return this.#s=this.#s.catch(()=>{}).then(()=>this.#o()),this.#s}async#o(){if(this.isEnd)return"";this.isReading=!0;try{return await this.#i()}finally{this.isReading=!1}}async#i(){let e={Range:`bytes=${this.read}-${this.read+ww-1}`},n=await be("GET",this.#e,{headers:e}),s=new Uint8Array(await n.arrayBuffer()),o=/\/(\d+)$/.exec(n.headers.get("Content-Range")??"");this.read+=s.length,this.size=o?Number(o[1]):this.read;let i=this.#n+this.#t.decode(s,{stream:!this.isEnd}),r=this.isEnd?i.length:Lw(i);return this.#n=i.slice(r),i.slice(0,r)}};function Lw(t){let e=t.lastIndexOf(`
`,t.length-1)+1;if(e>t.length-8192&&e>0)return e;let n=t.lastIndexOf("\x1B");return n>=t.length-64&&n>0?n:t.endsWith("\r")?t.length-1:t.length}var Iw=10,yp=1500;function _p({state:t,callId:e}){return a`<${ks} label="Live output" output=${t.transcript.preview(e).value} />`}function ks({label:t,output:e}){let{text:n,tokens:s}=N(()=>xs(Nw(e,4*yp)),[e]),o=n.trimEnd().length;if(o===0)return null;let i=Math.max(o-yp,Pw(n,o,Iw));return a`<pre class="tail" aria-label=${t}>${Ee(n,i,o,s).map(as)}</pre>`}function Nw(t,e){if(t.length<=e)return t;let n=t.slice(-e);return n.slice(n.indexOf(`
`)+1)}function Pw(t,e,n){let s=e;for(let o=n;o>0&&s>0;o-=1)s=t.lastIndexOf(`
`,s-1);return s+(s<0||t[s]===`
`?1:0)}function bp({state:t,result:e}){let n=z(Mn),s=b(t.id,"tool-calls",e.call_id,"output"),{text:o,tokens:i}=N(()=>xs(e.output),[e.output]);return a`<div class="output">
    ${e.compacted_at&&a`<${Dw} result=${e} />`}
    ${o===""?a`<p class="dim">No output.</p>`:a`<div class="copyable">
          <${ae} label="Output" text=${o} tokens=${i} /><${kt} text=${o} name="output" />
        </div>`}
    <${qt} sessionId=${t.id} parts=${e.images??[]} />
    ${e.bytes>0&&a`<p class="output-ways">
      ${e.truncated&&a`<span class="dim">Truncated.</span> `}
      <button type="button" class="link" onClick=${()=>n.value=s}>Full output</button>${" "}
      <a href=${s} download=${`${e.call_id}.txt`}>Download</a> <span class="dim">${j(e.bytes)}</span>
    </p>`}
  </div>`}function Dw({result:t}){let e=t.original_tokens==null?"":` instead of ${$(t.original_tokens)} tokens`;return a`<p class="pruned">
    Cleared from the context on ${pe(t.compacted_at)}: the model now sees a placeholder${e}.
  </p>`}var Fw=2e3,wp=Symbol("gone");function $i(t,e,n){let s=q(null);return v(()=>{if(!e)return;let o=!1,i=null,r=async()=>{let l=s.peek(),c=document.hidden?null:await t(l).catch(({status:u})=>u===404?wp:null);o||c===wp||(c&&(s.value=c),!(c&&n(c))&&(i=setTimeout(r,Fw)))};return r(),()=>{o=!0,clearTimeout(i)}},[e]),s}var Ww=8e3,xp=200;function kp({state:t,note:{at:e,command_id:n,command:s,end:o}}){let i=b(t.id,"commands",n),r=f=>E(`${i}/output?since=${Math.max(0,f-Ww)}`),c=$i(async f=>r((f??await r(Number.MAX_SAFE_INTEGER)).bytes),o===null,({status:f})=>f!=="running").value,u=o??c??{status:"running"},d=u.status==="running";return a`<p class=${zw(u)?"failed":void 0}>
      Background command <code>${_(s.slice(0,xp))}</code>: ${Uw(u)}${" "}
      ${!d&&u.bytes>0&&a`<${Bw} sessionId=${t.id} callId=${n} /> `}
      <time class="numbers" ...${Ue(e)}>${de(e)}</time>
      ${d&&a` <${C} onClick=${()=>we(i)} aria-label=${`Stop ${_(s.slice(0,xp))}`}>
        Stop
      <//>`}
    </p>
    ${d&&c&&a`<${ks} label="Live output" output=${c.output} />`}`}function Bw({sessionId:t,callId:e}){let n=z(Mn),s=b(t,"tool-calls",e,"output");return a`<button type="button" class="link" onClick=${()=>n.value=s}>Output</button>`}var qw={running:"running",stopped:"stopped",cancelled:"cancelled with its run",limit:"stopped at a limit",sandbox_stopped:"stopped with its sandbox",interrupted:"interrupted by a server restart",failed:"could not be started"};function Uw({status:t,exit_code:e,remark:n}){let s=t==="exited"?`ended with exit code ${e}`:qw[t];return n?`${s} (${_(n)})`:s}var zw=({status:t,exit_code:e})=>t==="exited"?e!==0:["limit","interrupted","failed"].includes(t);function Sp({state:t,note:{at:e,server:n,...s}}){return a`<p class=${s.type==="mcp.failed"?"failed":void 0}>
    ${s.type==="mcp.failed"?a`<${Gw} server=${n} ...${s} />`:jw(n,s)}${" "}
    <a href=${B(t.id,"context")}>Tools</a>${" "}
    <time class="numbers" ...${Ue(e)}>${de(e)}</time>
  </p>`}function jw(t,{tools:e,left_out:n}){let s=Object.keys(n??{}).length,o=`${$(e.length)} ${e.length===1?"tool":"tools"}`;return`MCP server ${_(t)} ready: ${o}${s>0?`, ${$(s)} left out`:""}.`}var Hw={secret_missing:"Add the secret; the server is retried while the session works.",unauthorized:"Check its credentials; the server is retried while the session works."},Kw=t=>`${_(t).trim().replace(/\.$/,"")}.`;function Gw({server:t,code:e,detail:n}){return a`MCP server ${_(t)} failed (<code>${_(e)}</code>): ${Kw(n)}${" "}
    Its tools are not offered. ${Hw[e]??"It is retried while the session works."}`}function Ep({note:{at:t,subagent_id:e,title:n,end:s}}){let o=$i(()=>E(b(e)),s===null,({status:r})=>r==="idle").value,i=s??(o?.status==="idle"?o:null);return a`<p class=${i&&i.outcome!=="completed"?"failed":void 0}>
      Sub-agent <a href=${B(e)}>${_(n??e)}</a>: ${i?Yw(i):"working"}${" "}
      <time class="numbers" ...${Ue(t)}>${de(t)}</time>
    </p>
    ${!i&&o&&a`<p class="note-now"><${Vw} session=${o} /></p>`}`}function Vw({session:t}){return t.status==="awaiting_approval"?"Waiting for your approval":a`<${bo} session=${t} />`}function Yw({outcome:t,steps:e,error:n}){let s=`${t.replace("_"," ")} after ${$(e)} ${e===1?"step":"steps"}`;return n?a`${s} (<code>${_(n.code)}</code>)`:s}function Cp(t,e,n){let s=Number(X.value.query.message)||null,o=w(!1);M(()=>{o.current=s!==null,s!==null&&t.loadAround(s).catch(()=>{})},[t,s]);let i=s===null?-1:n.findLastIndex(({id:r})=>r&&t.message(r)?.peek().seq<=s);return M(()=>{!o.current||i<0||t.loading.peek()||(o.current=!1,t.reading.follow(!1),e.scrollToIndex(i,{align:"center"}))}),n[i]?.key??null}function Op({state:t,message:e}){let n=e.parts.filter(({type:o})=>o==="text").map(o=>o.text).join(`

`);return a`<${C} kind="plain row-edit" onClick=${async()=>{let{transcript:o}=t,i=o.order.peek(),r=i[i.indexOf(e.id)-1];if(r===void 0&&o.hasEarlier.peek())throw new Error("Scroll up to load earlier messages.");if(r===void 0)return Jw(t.session.peek(),n);let l=await H(b(t.id,"fork"),{after_message_id:r});Xf(l.id,n),P("This is a fork from before the message. Edit the message and send it; the original session is unchanged."),se(B(l.id))}}>Edit<//>`}function Jw({model:t},e){Wt({task:e,model:t}),Yn()}function Tp({part:t,isWriting:e}){let n=`${$(t.text.length)} ${t.text.length===1?"character":"characters"}`,s=a`<span>${e?"Reasoning…":"Reasoning"}</span> <span class="dim numbers">${n}</span>`;return a`<${Cn} id=${t.id} head=${s} kind="reasoning">
    ${()=>St(R(t.text)).map((o,i)=>a`<div key=${i} class="as-is block" dir="auto">${o}</div>`)}
  <//>`}var Ss=class{diff(e,n,s={}){let o;typeof s=="function"?(o=s,s={}):"callback"in s&&(o=s.callback);let i=this.castInput(e,s),r=this.castInput(n,s),l=this.removeEmpty(this.tokenize(i,s)),c=this.removeEmpty(this.tokenize(r,s));return this.diffWithOptionsObj(l,c,s,o)}diffWithOptionsObj(e,n,s,o){var i;let r=k=>{if(k=this.postProcess(k,s),o){setTimeout(function(){o(k)},0);return}else return k},l=n.length,c=e.length,u=1,d=l+c;s.maxEditLength!=null&&(d=Math.min(d,s.maxEditLength));let f=(i=s.timeout)!==null&&i!==void 0?i:1/0,h=Date.now()+f,p=[{oldPos:-1,lastComponent:void 0}],m=this.extractCommon(p[0],n,e,0,s);if(p[0].oldPos+1>=c&&m+1>=l)return r(this.buildValues(p[0].lastComponent,n,e));let x=-1/0,S=1/0,T=()=>{for(let k=Math.max(x,-u);k<=Math.min(S,u);k+=2){let O,I=p[k-1],V=p[k+1];I&&(p[k-1]=void 0);let le=!1;if(V){let $e=V.oldPos-k;le=V&&0<=$e&&$e<l}let Q=I&&I.oldPos+1<c;if(!le&&!Q){p[k]=void 0;continue}if(!Q||le&&I.oldPos<V.oldPos?O=this.addToPath(V,!0,!1,0,s):O=this.addToPath(I,!1,!0,1,s),m=this.extractCommon(O,n,e,k,s),O.oldPos+1>=c&&m+1>=l)return r(this.buildValues(O.lastComponent,n,e))||!0;p[k]=O,O.oldPos+1>=c&&(S=Math.min(S,k-1)),m+1>=l&&(x=Math.max(x,k+1))}u++};if(o)(function k(){setTimeout(function(){if(u>d||Date.now()>h)return o(void 0);T()||k()},0)})();else for(;u<=d&&Date.now()<=h;){let k=T();if(k)return k}}addToPath(e,n,s,o,i){let r=e.lastComponent;return r&&!i.oneChangePerToken&&r.added===n&&r.removed===s?{oldPos:e.oldPos+o,lastComponent:{count:r.count+1,added:n,removed:s,previousComponent:r.previousComponent}}:{oldPos:e.oldPos+o,lastComponent:{count:1,added:n,removed:s,previousComponent:r}}}extractCommon(e,n,s,o,i){let r=n.length,l=s.length,c=e.oldPos,u=c-o,d=0;for(;u+1<r&&c+1<l&&this.equals(s[c+1],n[u+1],i);)u++,c++,d++,i.oneChangePerToken&&(e.lastComponent={count:1,previousComponent:e.lastComponent,added:!1,removed:!1});return d&&!i.oneChangePerToken&&(e.lastComponent={count:d,previousComponent:e.lastComponent,added:!1,removed:!1}),e.oldPos=c,u}equals(e,n,s){return s.comparator?s.comparator(e,n):e===n||!!s.ignoreCase&&e.toLowerCase()===n.toLowerCase()}removeEmpty(e){let n=[];for(let s=0;s<e.length;s++)e[s]&&n.push(e[s]);return n}castInput(e,n){return e}tokenize(e,n){return Array.from(e)}join(e){return e.join("")}postProcess(e,n){return e}get useLongestToken(){return!1}buildValues(e,n,s){let o=[],i;for(;e;)o.push(e),i=e.previousComponent,delete e.previousComponent,e=i;o.reverse();let r=o.length,l=0,c=0,u=0;for(;l<r;l++){let d=o[l];if(d.removed)d.value=this.join(s.slice(u,u+d.count)),u+=d.count;else{if(!d.added&&this.useLongestToken){let f=n.slice(c,c+d.count);f=f.map(function(h,p){let m=s[u+p];return m.length>h.length?m:h}),d.value=this.join(f)}else d.value=this.join(n.slice(c,c+d.count));c+=d.count,d.added||(u+=d.count)}}return o}};var va=class extends Ss{constructor(){super(...arguments),this.tokenize=Qw}equals(e,n,s){return s.ignoreWhitespace?((!s.newlineIsToken||!e.includes(`
`))&&(e=e.trim()),(!s.newlineIsToken||!n.includes(`
`))&&(n=n.trim())):s.ignoreNewlineAtEof&&!s.newlineIsToken&&(e.endsWith(`
`)&&(e=e.slice(0,-1)),n.endsWith(`
`)&&(n=n.slice(0,-1))),super.equals(e,n,s)}},Xw=new va;function Mp(t,e,n){return Xw.diff(t,e,n)}function Qw(t,e){e.stripTrailingCr&&(t=t.replace(/\r\n/g,`
`));let n=[],s=t.split(/(\n|\r\n)/);s[s.length-1]||s.pop();for(let o=0;o<s.length;o++){let i=s[o];o%2&&!e.newlineIsToken?n[n.length-1]+=i:n.push(i)}return n}var Zw=100,Ap=3,e0=/^ *(\d+) {2}(.*)$/;function Rp(t,e,n){let s=t==="edit_file"?[e?.old_text,e?.new_text]:["",e?.content];if(!(t==="edit_file"||t==="write_file")||[e?.path,...s].some(m=>typeof m!="string"))return null;let[i,r]=s.map(m=>m.replace(/\r\n/g,`
`));if(t==="write_file")return ya("",r,1);let l=n0(n??"",r);if(!l)return t0(ya(i,r,1));let{start:c,above:u=[],prefix:d="",suffix:f="",below:h=[]}=l,p=m=>[...u,`${d}${m}${f}`,...h].join(`
`);return ya(p(i),p(r),c-u.length)}function Lp({lines:t}){let e=n=>t.filter(({kind:s})=>s===n).length;return{additions:e("added"),deletions:e("removed")}}function ya(t,e,n){let s=l=>l===""||l.endsWith(`
`)?l:`${l}
`,i=(Mp(s(t),s(e),{timeout:Zw})??[{removed:!0,value:s(t)},{added:!0,value:s(e)}]).flatMap(({added:l,removed:c,value:u})=>{let d=l?"+":c?"-":" ";return u.split(`
`).slice(0,-1).map(f=>d+f)}),r=Yo(`@@ -${n} +${n} @@
${i.join(`
`)}`);return{...r,lines:r.lines.filter(({kind:l})=>l!=="hunk")}}var t0=t=>({...t,lines:t.lines.map(e=>({...e,old:null,new:null}))});function n0(t,e){let n=new Map;for(let r of t.split(`
`)){let[,l,c]=e0.exec(r)??[];l&&n.set(Number(l),c)}let s=Math.min(...n.keys());if(n.size===0)return null;let o=s>1?[s+Ap]:[1,2,3,4],i=e===""?[]:o.flatMap(r=>s0(n,r,e.split(`
`)));return i.length===1?i[0]:s>1?{start:s+Ap}:null}function s0(t,e,n){let s=e+n.length-1,o=n.slice(1,-1).every((h,p)=>(t.get(e+1+p)??h)===h),[i,r]=[t.get(e),t.get(s)??(n.at(-1)===""?"":void 0)];if(i===void 0||r===void 0||!o)return[];let l=(h,p)=>[...t].filter(([m])=>m>=h&&m<=p).map(([,m])=>m),[c,u]=[l(1,e-1),l(s+1,1/0)],d=(h,p)=>({start:e,above:c,prefix:h,suffix:p,below:u});if(n.length>1)return!i.endsWith(n[0])||!r.startsWith(n.at(-1))?[]:[d(i.slice(0,i.length-n[0].length),r.slice(n.at(-1).length))];let f=[];for(let h=i.indexOf(n[0]);h>=0;h=i.indexOf(n[0],h+1))f.push(d(i.slice(0,h),i.slice(h+n[0].length)));return f}var _a=16,Ip=4;function Np({name:t,arguments:e,open:n},s){let o=s?.status==="completed"?s.output:null,i=!n&&(s===null||o!==null);return N(()=>i?Rp(t,e,o):null,[t,e,o,i])}function Pp({diff:t,path:e,callId:n}){let s=z(ht),o=`diff ${n}`,i=s.of(o).value||t.lines.length<=_a+Ip,r=N(()=>i?t:{...t,lines:t.lines.slice(0,_a)},[t,i]);return t.lines.length===0?null:a`<div class="edit-diff" role="region" aria-label="Diff">
    <${Qo} diff=${r} path=${e} />
    ${t.lines.length>_a+Ip&&a`<button type="button" class="plain" aria-expanded=${i} onClick=${()=>s.toggle(o)}>
      ${i?"Show less":`Show all ${$(t.lines.length)} lines`}
    </button>`}
  </div>`}var Dp=({diff:t})=>a`<${Be} ...${Lp(t)} />`;var o0=2e4;function Fp({state:t,part:e}){let n=e.open?null:t.transcript.result(e.call_id).value,s=gc(e,n,t),o=Np(e,n),i=e.open?$c(e):sn(e),r=a`<${Xe} name=${hc(e.name)} />
    <span class="call-verb">${i.verb}</span>
    <span class="call-argument mono">${i.argument}</span>
    ${i.more&&a`<span class="dim call-more">${i.more}</span>`}
    ${o&&a`<span class="call-more"><${Dp} diff=${o} /></span>`}
    <span class="call-end">
      ${n&&a`<span class="dim numbers">${i0(n)}</span>`}
      ${s.kind==="good"?a`<span class="hidden">${s.word}</span>`:a`<${W} kind=${s.kind}>${s.word}<//>`}
    </span>`,l={"data-call-id":e.call_id,"data-status":n?.status??s.word};return a`<div class="call ${s.kind}" ...${l}>
    <${Cn} id=${e.call_id??e.id} head=${r} kind="tool">
      ${()=>a`<${r0} state=${t} part=${e} result=${n} hasDiff=${o!==null} />`}
    <//>
    ${o&&a`<${Pp} diff=${o} path=${e.arguments.path} callId=${e.call_id} />`}
    ${!n&&!e.open&&a`<${_p} state=${t} callId=${e.call_id} />`}
    ${s.kind==="bad"&&a`<${ks} label="End of the output" output=${n.output} />`}
  </div>`}function i0({duration_ms:t,images:e,compacted_at:n}){return[e?.length>0&&(e.length===1?"1 image":`${e.length} images`),t>0&&U(t),n&&"cleared from the context"].filter(Boolean).join(" · ")}function r0({state:t,part:e,result:n,hasDiff:s}){return e.open?a`<${ae} label="Arguments" text=${R(e.written)} />`:a`${!s&&a`<${a0} name=${e.name} args=${e.arguments??{}} />`}
    ${n&&a`<${bp} state=${t} result=${n} />`}`}function a0({name:t,args:e}){if(t==="execute_command"&&typeof e.command=="string"){let{command:n,timeout_s:s,...o}=e;if(Object.keys(o).length===0)return a`<${l0} text=${n} timeout=${s} />`}return a`<${mn} name=${t} args=${e} />`}function l0({text:t,timeout:e}){return a`${t.length>o0?a`<${ae} label="Command" text=${R(t)} />`:a`<div class="file-text" tabindex="0" role="region" aria-label="Command">
          <${pn} text=${t} language="bash" />
        </div>`}
    ${e!=null&&a`<p class="dim">Timeout: ${U(Number(e)*1e3)}</p>`}`}var c0={user:"You",control:"Palimpsest",assistant:"Assistant",system:"System"},ba=({role:t})=>c0[t]??t;function Bp({state:t,id:e,isMore:n}){let s=t.transcript.message(e)?.value;if(!s)return null;let o=f0(s)&&t.session.value?.status!=="idle",i=s.round!=null,r=u0(s);return a`<header class="row-head ${n&&!o?"is-more":""}">
      <h2>${o?a`<span class="writing">Writing…</span>`:ba(s)}</h2>
      <div class="row-tools">
        <a class="row-link" href=${B(t.id,"conversation",{message:s.seq})}>
          <time class="dim numbers" ...${Ue(s.created_at)}>
            ${de(s.created_at)}
          </time>
        </a>
        ${s.role==="user"&&a`<${Op} state=${t} message=${s} />`}
      </div>
      ${i&&a`<span class="hidden">Not in the model's context</span>`}
    </header>
    <div class="row-body ${i?"unseen":""}" title=${i?"Not in the model's context":void 0}>
      ${d0(t,s)}
      ${r&&!o&&a`<${kt} text=${r} name="message" />`}
    </div>`}function u0({parts:t}){return t.filter(({type:e})=>e==="text").map(({text:e})=>e).join(`

`)}function d0(t,e){if(e.role!=="assistant")return a`<${h0} state=${t} message=${e} />`;let n=e.parts.at(-1);return[...e.parts.map(s=>{let o=s===n&&e.finish_reason===null;return a`<${p0} key=${s.id} state=${t} part=${s} isOpen=${s.open||o} />`}),a`<${$0} key="end" message=${e} />`]}function f0({role:t,finish_reason:e,parts:n}){if(t!=="assistant"||e!==null)return!1;let s=n.at(-1);return s?.type!=="tool_call"||s.open===!0}function p0({state:t,part:e,isOpen:n}){switch(e.type){case"text":return a`<${Ct} id=${e.id} text=${e.text} isWhole=${!n} />`;case"reasoning":return e.text?a`<${Tp} part=${e} isWriting=${n} />`:null;case"tool_call":return a`<${Fp} state=${t} part=${e} />`;default:return a`<${qt} sessionId=${t.id} parts=${[e]} />`}}function h0({state:t,message:{role:e,parts:n}}){let s=e==="user"?np:pi;return m0(n).map(o=>{let[{id:i,type:r,text:l}]=o;return r==="text"?a`<${s} key=${i} state=${t} text=${l} />`:a`<${qt} key=${i} sessionId=${t.id} parts=${o} />`})}function m0(t){let e=[];for(let n of t)n.type==="image"&&e.at(-1)?.[0].type==="image"?e.at(-1).push(n):e.push([n]);return e}var Wp={length:"Cut off here: the answer reached the maximum length.",refusal:"The model declined to answer.",content_filter:"The provider's content filter ended the answer here.",cancelled:"Cancelled here.",interrupted:"Interrupted here: the server stopped while the model was writing."};function $0({message:{finish_reason:t,error:e}}){if(t==="error"){let n=e?_(`${e.detail??e.title??""} (${e.code??"unknown"})`):"";return a`<p class="row-end bad">Failed here. ${n}</p>`}return Wp[t]?a`<p class="row-end">${Wp[t]}</p>`:null}var g0=4,v0=500,qp=t=>gi(t)-t.scrollTop<=g0;function zp(t,e,n){let{reading:s}=t,o=w(s.isFollowed?"end":null),i=w({scrollTop:0,scrollHeight:0,clientHeight:0,lowest:1/0}),r=w(-1/0),l=x=>{let S=qp(x)&&!t.hasLater.peek();return S&&s.follow(!0),S};M(()=>{let x=s.isFollowed&&!qp(n.current);o.current==="start"?e.scrollToOffset(0):(o.current==="end"||x)&&e.scrollToEnd(),o.current=null;let{scrollTop:S,lowest:T}=i.current;i.current={...Up(n.current),scrollTop:S,lowest:Math.min(T,gi(n.current))}}),M(()=>Y(()=>{s.left.value!==null&&e.cancelScroll()}),[s,e]),M(()=>{l(n.current)},[e.getTotalSize()]),M(()=>(s.place=null,()=>s.place=s.isFollowed?null:y0(e)),[t]);let c=()=>n.current.focus({preventScroll:!0}),u=({currentTarget:x})=>{let{scrollTop:S,scrollHeight:T,clientHeight:k,lowest:O}=i.current,I=x.scrollTop<S,V=x.scrollHeight===T&&x.clientHeight===k,le=x.scrollTop<Math.min(O,gi(x))-x.clientHeight;i.current=Up(x),!(l(x)||!I)&&(V||le||performance.now()-r.current<v0)&&s.follow(!1)},d=()=>r.current=performance.now(),f=async()=>{t.hasEarlier.peek()&&await t.loadOldest(),s.follow(!1),o.current="start",e.scrollToOffset(0)},h=async()=>{await t.followNewest(),o.current="end",e.scrollToEnd(),c()};return{focus:c,handlers:{...{onWheel:d,onPointerDown:d,onTouchMove:d,onKeyDown:x=>{if(d(),x.target!==x.currentTarget||x.altKey||x.metaKey)return;let S={Home:f,End:h}[x.key];S&&(x.preventDefault(),S().catch(()=>{}))}},onScrollCapture:u},toFirst:f,toNewest:h}}var gi=({scrollHeight:t,clientHeight:e})=>t-e;function Up(t){let{scrollTop:e,scrollHeight:n,clientHeight:s}=t;return{scrollTop:e,scrollHeight:n,clientHeight:s,lowest:gi(t)}}function y0(t){let e=t.getScrollOffset(),n=t.getVirtualItemForOffset(e);return n?{key:n.key,beyond:e-n.start,sizes:t.takeSnapshot()}:null}function jp(t,e,n){let s=n?e.findIndex(({key:o})=>o===n.key):-1;return s<0?null:t.getMeasurements()[s].start+n.beyond}function Hp({sessionId:t,round:e}){let{round:n,reason:s,summary:o,tokens_before:i,tokens_after:r}=e,l=z(ht),c=`round ${n}`,u=l.of(c).value;return a`<p class="rule">
      <span title="Compaction ${n}: ${pt[s]??s}">
        Compacted <span class="numbers">${oe(i)} → ${oe(r)}</span>
      </span>
      ${kn(e)&&a`<${W} kind="warn">Summarized without a model<//>`}
      ${o&&a`<button type="button" class="link" aria-expanded=${u} onClick=${()=>l.toggle(c)}>
        ${u?"hide summary":"read summary"}
      </button>`}
      <a href=${B(t,"context")}>context</a>
    </p>
    ${u&&a`<div class="rule-summary">
      <p class="dim">The model sees this summary instead of the marked messages above.</p>
      <${Ct} id="rule-${n}-${t}" text=${o} isWhole=${!0} />
    </div>`}`}var wa=5,_0=2e3;function Kp({state:t,end:e,isLatest:n,hasAnswer:s}){let o=w0(t,e,n),i=n&&t.session.value?.status==="idle";return a`<header class="row-head">
      <h2>Run ended</h2>
      <time class="dim numbers" ...${Ue(e.at)}>${de(e.at)}</time>
    </header>
    <div class="row-body run-card">
      <p class="run-facts">
        <${W} kind=${Xi(e.outcome)}>${e.outcome.replace("_"," ")}<//>
        ${b0(e).map(r=>a`<span key=${r} class="numbers">${r}</span>`)}
        <${x0} ...${o} failure=${e.failure} />
      </p>
      <${E0} end=${e} isIdle=${i} />
      ${e.answer&&!s&&a`<${Ct} id=${`answer-${e.seq}`} text=${e.answer} isWhole=${!0} />`}
      ${e.output!=null&&a`<${C0} output=${e.output} />`}
      ${o.list?.items.length>0&&a`<${O0} list=${o.list} />`}
      <${T0} ...${{state:t,changed:o,isIdle:i}} />
    </div>`}function b0({steps:t,startedAt:e,at:n,usage:s}){let o=e===null?null:Date.parse(n)-Date.parse(e),i=s.cost_usd?te(s.cost_usd):null;return[`${$(t)} ${t===1?"step":"steps"}`,o!==null&&U(o),i].filter(Boolean)}function w0(t,e,n){let s=$s(t),o=s.checkpoints.value;v(()=>{(n||o===null)&&s.findCheckpoints()},[n,e.seq]);let i=Ed(e,o??[]),l=i.begin!==null&&i.end!==null?s.summary(i.begin,i.end,n).value:null;return{...i,list:l}}function x0({list:t,failure:e}){return e?a`<span class="dim">changes unknown: ${_(e.detail)}</span>`:t===null?null:t.items.length===0?a`<span>no files changed</span>`:a`<span>${Tt(t.items.length)} changed <${Be} ...${t} /></span>`}var k0={output_invalid:"Check the output's schema, or resume to let the model try again.",missing_api_key:"Set the provider's API key, then resume.",clone_failed:"Check the repository's address, its ref and its credential, then resume to clone again.",context_too_large:"Choose a model with a larger window or fork from an earlier point, then resume."},S0={failed:"Resume to try the failed step again, or send a message to change course.",cancelled:"Resume to continue where the run stopped, or send a message.",interrupted:"Resume to continue where the run stopped, or send a message."};function E0({end:{outcome:t,error:e},isIdle:n}){let s=n&&(k0[e?.code]??S0[t]);return!e&&!s?null:a`<div class="run-problem ${t}">
    ${e&&a`<p><code>${_(String(e.code))}</code> ${_(e.detail??e.title??"")}</p>`}
    ${s&&a`<p class="dim">${s}</p>`}
  </div>`}function C0({output:t}){let e=JSON.stringify(t,null,2);return a`<section class="run-output" aria-label="Output">
    <h3>Output</h3>
    ${e.length>_0?a`<${ae} label="Output" text=${At(e)} />`:a`<${pn} text=${e} language="json" />`}
  </section>`}function O0({list:{items:t}}){return a`<ul class="run-files">
    ${t.slice(0,wa).map(e=>a`<li key=${e.path}>
        <${W} kind=${_n[e.status]}>${e.status}<//>${" "}
        <code><${Go} item=${e} /></code>${" "}
        ${e.binary?a`<span class="dim">binary</span>`:a`<${Be} ...${e} />`}
      </li>`)}
    ${t.length>wa&&a`<li class="dim">and ${$(t.length-wa)} more</li>`}
  </ul>`}function T0({state:t,changed:{begin:e,end:n,list:s},isIdle:o}){let[i,r]=y(!1),l=e!==null&&n!==null&&s?.items.length!==0,c=o&&t.session.value?.kind!=="subagent";if(!l&&!c)return null;let u=()=>$s(t).choose(e,n);return a`<div class="run-ways">
    ${l&&a`<a class="button" href=${B(t.id,"changes")} onClick=${u}>Show changes</a>
      <a class="button" href=${ft(t.id,e,n,"patch")} download=${`${t.id}.patch`}>
        Download patch
      </a>`}
    ${c&&a`<button type="button" onClick=${()=>r(!0)}>Fork</button>`}
    ${i&&a`<${yo} sessionId=${t.id} onClose=${()=>r(!1)} />`}
  </div>`}var Gp=12,M0=23,A0=27,R0=20,Vp=18,L0=90,I0=34,N0=95;function Yp(t,e,n=[],s=[]){let o=W0(e),i=[],r=[...n.map(d=>({seq:d.seq,end:d})),...s.map(d=>({seq:d.seq,note:d}))];r.sort((d,f)=>d.seq-f.seq);let l=t.order.value,c=d=>d<l.length?t.message(l[d]).peek().seq:P0(t),u=t.hasEarlier.value?r.findIndex(({seq:d})=>d>c(0)):0;return u<0&&(u=r.length),l.forEach((d,f)=>{let{role:h,is_summary:p}=t.message(d).peek();if(h!=="tool"&&!p){let m=h==="assistant"&&i.at(-1)?.role===h;i.push({key:d,id:d,role:h,isMore:m})}for(;u<r.length&&r[u].seq<c(f+1);u+=1){let{end:m,note:x}=r[u];m?D0(i,m,t):i.push({key:`note ${x.seq}`,note:x})}for(let m of o.get(d)??[])i.push({key:`round ${m.round}`,round:m})}),i}var P0=t=>t.hasLater.value?0:1/0;function D0(t,e,n){let s=t.findLast(({note:i})=>!i),o=e.answer!==null&&s?.id!==void 0&&F0(n.message(s.id).peek());o&&(s.isAnswer=!0),t.push({key:`end ${e.seq}`,end:e,hasAnswer:o})}var F0=({role:t,parts:e})=>t==="assistant"&&e.some(({type:n})=>n==="text");function W0(t){let e=new Map;for(let n of t)n.status!=="completed"||!n.last_message_id||e.set(n.last_message_id,[...e.get(n.last_message_id)??[],n]);return e}function Jp(t,e){if(e.round)return 44;if(e.end)return L0;if(e.note)return I0;let n=t.message(e.id)?.peek();return n?n.parts.reduce((s,o)=>s+B0(o),Gp):Gp}function B0(t){return t.type==="image"?qu(t):t.type!=="text"?A0+q0(t):Math.min(2e4,Math.ceil(t.text.length/N0)*M0+8)}function q0({name:t,arguments:e}){if(t!=="write_file"&&t!=="edit_file")return 0;let s=[e?.content,e?.old_text,e?.new_text].filter(o=>typeof o=="string").reduce((o,i)=>o+i.split(`
`,Vp).length,0);return Math.min(Vp,s)*R0}globalThis.process??={env:{NODE_ENV:"production"}};function Xp(t){return typeof t=="object"?t.key:t}function Qp(t,e){let n=t.length;return new Proxy(t,{get(s,o,i){if(typeof o=="string"){let r=o.charCodeAt(0);if(r>=48&&r<=57){let l=+o;if(Number.isInteger(l)&&l>=0&&l<n){let c=s[l];if(typeof c!="object"){let u=e[l*2];c=s[l]={index:l,key:c,start:u,size:e[l*2+1],end:u+e[l*2+1],lane:0}}return c}}if(o==="length")return n}return Reflect.get(s,o,i)}})}function jt(t,e,n){let s=n.initialDeps??[],o,i=!0;function r(){var l;let u=0,d=t();if(!(d.length!==s.length||d.some((p,m)=>s[m]!==p)))return o;s=d;let h=0;return o=e(...d),n?.onChange&&!(i&&n.skipInitialOnChange)&&n.onChange(o),i=!1,o}return r.updateDeps=l=>{s=l},r}function xa(t,e){if(t===void 0)throw new Error(`Unexpected undefined${e?`: ${e}`:""}`);return t}var $t=(t,e)=>Math.abs(t-e)<1.01,Zp=(t,e,n)=>{let s;return Object.assign(function(...o){t.clearTimeout(s),s=t.setTimeout(()=>e.apply(this,o),n)},{cancel:()=>{t.clearTimeout(s)}})};function eh({offset:t,isScrolling:e,elementMax:n,holdOffset:s,scrollOffset:o,pendingWrite:i,clampedMaxAtWrite:r}){var l;return e&&i===null&&t===o?"spurious":i!==null&&Math.abs(t-i.target)<1.5?"readBack":i!==null&&!i.smooth&&n!==null&&i.target>n+s+.5&&Math.abs(t-(n+s))<1.5||i!==null&&!i.smooth&&((l=i.lowMaxes)!=null&&l.some(c=>Math.abs(t-c)<1.5))?"clampedReadBack":r!==null&&Math.abs(t-r)<1.5?"clampedEcho":"external"}var U0=t=>t==="smooth"||t==="smoothFinishing";function th({kind:t,offset:e,command:n,target:s}){return t!=="spurious"&&t!=="readBack"&&t!=="clampedReadBack"&&n?.index!=null&&n.phase!=="queued"&&!U0(n.phase)&&!$t(e,n.lastTargetOffset)&&!$t(e,s())&&t!=="clampedEcho"}var ka=40;function nh(t){let e=t[t.length-1];if(e===void 0)return!1;let n=t.length-2;for(;n>=0&&e.t-t[n].t<ka;)n--;if(n<0)return!1;let s=t[n],o=n-1;for(;o>=0&&s.t-t[o].t<ka;)o--;if(o<0)return!1;let i=t[o],r=(e.offset-s.offset)/(e.t-s.t),l=(s.offset-i.offset)/(s.t-i.t);return r*l>=0&&Math.abs(r)>=2*Math.abs(l)&&Math.abs(r)-Math.abs(l)>=.8}function sh(t){let e=t[t.length-1];if(e===void 0)return!1;let n=t.length-2;for(;n>=0&&e.t-t[n].t<ka;)n--;if(n<0)return!1;let s=t[n];return Math.abs(e.offset-s.offset)/(e.t-s.t)>=.05}var Es,Cs=()=>{if(Es!==void 0)return Es;if(typeof navigator>"u")return Es=!1;if(/iP(hone|od|ad)/.test(navigator.userAgent))return Es=!0;let t=navigator.maxTouchPoints;return Es=navigator.platform==="MacIntel"&&t!==void 0&&t>0},Sa,z0=()=>Sa!==void 0?Sa:Sa=Cs()&&typeof CSS<"u"&&typeof CSS.supports=="function"&&CSS.supports("overflow-anchor: auto"),oh=()=>!Cs()||z0();var An={capture:!0,passive:!0},vi=class{constructor(e){this.host=e,this._touch=null,this.inMotion=()=>this._touch!==null&&this._touch.phase!=="lateFling",this.dragging=()=>{var n;return((n=this._touch)==null?void 0:n.phase)==="down"&&this._touch.moved},this.tail=()=>{var n;return((n=this._touch)==null?void 0:n.phase)==="tail"?this._touch.moved?"fling":"tap":null},this.onScroll=({isScrolling:n,ownReadBack:s,moved:o,external:i})=>{var r,l,c;return n&&((r=this._touch)==null?void 0:r.phase)==="tail"?this._openTail(this._touch.moved||!s,!1):((l=this._touch)==null?void 0:l.phase)==="lateFling"&&(this.host.now()>this._touch.until?this._touch=null:i&&n&&o&&this._openTail(!0,!1)),!s&&n&&o&&((c=this._touch)==null?void 0:c.phase)==="down"?(this._touch.moved=!0,!0):!1},this.touchStart=()=>{this.end(),this._touch={phase:"down",moved:!1}},this.touchEnd=()=>{var n;let s=((n=this._touch)==null?void 0:n.phase)==="down"&&this._touch.moved;this.end(),this._openTail(s,s)},this.end=()=>{var n;let s=this.host.getWindow();((n=this._touch)==null?void 0:n.phase)==="tail"&&s!=null&&s.clearTimeout(this._touch.timerId),this._touch=null},this.listen=n=>{let s=()=>this.touchStart(),o=()=>this.touchEnd();return n.addEventListener("touchstart",s,An),n.addEventListener("touchend",o,An),n.addEventListener("touchcancel",o,An),()=>{n.removeEventListener("touchstart",s,An),n.removeEventListener("touchend",o,An),n.removeEventListener("touchcancel",o,An),this.end()}},this._openTail=(n,s)=>{let o=this.host.getWindow();if(o==null)return;this.end();let i={phase:"tail",moved:n,awaitingFling:s,timerId:o.setTimeout(()=>{if(this.host.tailStillMoving()){this._openTail(i.moved,i.awaitingFling);return}this._touch=i.awaitingFling?{phase:"lateFling",until:this.host.now()+1e3}:null,this.host.onTailClosed()},150)};this._touch=i}}get touch(){return this._touch}};var ih=t=>{let{clientWidth:e,clientHeight:n}=t;return{width:e,height:n}},lh=t=>{let e=new Set;return{schedule:n=>{let s=t.requestAnimationFrame(()=>{e.delete(s),n()});e.add(s)},cancel:()=>{e.forEach(n=>t.cancelAnimationFrame(n)),e.clear()}}},j0=t=>t,yi=t=>{let e=t.overscan*Math.max(t.lanes??1,1),n=Math.max(t.startIndex-e,0),o=Math.min(t.endIndex+e,t.count-1)-n+1,i=new Array(o);for(let r=0;r<o;r++)i[r]=n+r;return i},Ea=(t,e)=>{let n=t.scrollElement;if(!n)return;let s=t.targetWindow;if(!s)return;let o=l=>{let{width:c,height:u}=l;e({width:Math.round(c),height:Math.round(u)})};if(o(ih(n)),!s.ResizeObserver)return()=>{};let i=lh(s),r=new s.ResizeObserver(()=>{let l=()=>{o(ih(n))};t.options.useAnimationFrameWithResizeObserver?i.schedule(l):l()});return r.observe(n,{box:"content-box"}),()=>{r.unobserve(n),i.cancel()}},rh={passive:!0};var H0=typeof window>"u"?!0:"onscrollend"in window,K0=(t,e,n)=>{let s=t.scrollElement;if(!s)return;let o=t.targetWindow;if(!o)return;let i=t.options.useScrollendEvent&&H0,r=0,l=i?null:Zp(o,()=>e(n(s),!1),t.options.isScrollingResetDelay),c=f=>()=>{r=n(s),l?.(),e(r,f)},u=c(!0),d=c(!1);return s.addEventListener("scroll",u,rh),i&&s.addEventListener("scrollend",d,rh),()=>{s.removeEventListener("scroll",u),i&&s.removeEventListener("scrollend",d),l?.cancel()}},Ca=(t,e)=>K0(t,e,n=>{let{horizontal:s,isRtl:o}=t.options;return s?n.scrollLeft*(o&&-1||1):n.scrollTop});var G0=(t,e,n)=>{if(n.options.useCachedMeasurements){let s=n.indexFromElement(t),o=n.options.getItemKey(s);return n.itemSizeCache.get(o)??n.options.estimateSize(s)}if(e?.borderBoxSize){let s=e.borderBoxSize[0];if(s)return Math.round(s[n.options.horizontal?"inlineSize":"blockSize"])}if(!e){let s=n.indexFromElement(t),o=n.options.getItemKey(s),i=n.itemSizeCache.get(o);if(i!==void 0)return i}return t[n.options.horizontal?"offsetWidth":"offsetHeight"]},V0=(t,{adjustments:e=0,behavior:n},s)=>{var o;let{scrollElement:i,options:r}=s,l=t+e,c=r.horizontal&&r.isRtl&&i!==null&&"ownerDocument"in i;(o=i?.scrollTo)==null||o.call(i,{[r.horizontal?"left":"top"]:c?-l:l,behavior:n})};var Oa=V0,ah=(t,e)=>t==="smooth"?e?"smoothLanded":"smooth":"instant",Os=t=>t?.phase==="smooth"||t?.phase==="smoothLanded";function Y0(t,e,n,s){if(e===0)return!1;let o=s(0),i=new Set,r=0;for(;r<t;){let c=n(r);if(c===o)break;i.add(c),r++}let l=t-r;if(l===0||l>=e)return!1;for(let c=0;c<l;c++)if(s(c)!==n(r+c))return!1;for(let c=l;c<e;c++)if(i.has(s(c)))return!1;return!0}var Ts=class{constructor(e){this.unsubs=[],this.scrollElement=null,this.targetWindow=null,this.isScrolling=!1,this.scrollState=null,this.measurementsCache=[],this._singleLaneMeasurements=null,this.itemSizeCache=new Map,this.itemSizeCacheVersion=0,this.laneAssignments=new Map,this.pendingMin=null,this.prevLanes=void 0,this.lanesChangedFlag=!1,this.lanesSettling=!1,this.pendingScrollAnchor=null,this.scrollRect=null,this.scrollOffset=null,this.scrollDirection=null,this._holdOffset=0,this._reportedOverscroll=!1,this._iosGesture=new vi({getWindow:()=>this.targetWindow,now:()=>this.now(),tailStillMoving:()=>{let n=this.scrollState;if(n?.phase!=="queued"||this.pendingWrite!==null)return!1;let s=this._readElementOffset();return s===null||this._lastElementOffset===null||Math.abs(s-this._lastElementOffset)<1?!1:(this._lastElementOffset=s,n.samples=[...n.samples??[],{t:this.now(),offset:s}],!0)},onTailClosed:()=>{let n=this.scrollState;n?.phase==="queued"&&sh(n.samples??[])&&(this.scrollState=null),this._flushHoldIfReady(!0),this._writeAwaitingCommand(),this._retryClampedAdjustment()}}),this._lastElementOffset=null,this.pendingWrite=null,this._clampedAdjustment=null,this.elementsCache=new Map,this._resizeBatch=null,this.now=()=>{var n,s,o;return((o=(s=(n=this.targetWindow)==null?void 0:n.performance)==null?void 0:s.now)==null?void 0:o.call(s))??Date.now()},this.observer=(()=>{let n=null,s=null,o=!1,i=!1,r=new Set,l=()=>{if(n)return n;let u=this.targetWindow;if(!u||!u.ResizeObserver)return null;let d=s=lh(u);return n=new u.ResizeObserver(f=>{let h=()=>{let p={sync:!1};this._resizeBatch=p;try{f.forEach(c)}finally{this._resizeBatch=null,p.notify&&(this.notify(p.sync),this._noteClampMax(),this._flushHoldIfReady(!0),this._retryClampedAdjustment(),this.measureElement(null))}};if(this.options.useAnimationFrameWithResizeObserver)d.schedule(h);else{o=!0;try{h()}finally{o=!1}}})},c=u=>{let d=u.target,f=this.indexFromElement(d);if(!d.isConnected){this.observer.unobserve(d);for(let[h,p]of this.elementsCache)if(p===d){this.elementsCache.delete(h);break}return}this.isIndexInRange(f)&&this.shouldMeasureDuringScroll(f)&&this.resizeItem(f,this.options.measureElement(d,u,this))};return{disconnect:()=>{var u;(u=l())==null||u.disconnect(),s?.cancel(),r.clear(),i=!1,n=null,s=null},observe:u=>{let d=l();if(d){if(!o){d.observe(u,{box:"border-box"});return}r.add(u),i||(i=!0,s?.schedule(()=>{i=!1,r.forEach(f=>{f.isConnected&&n?.observe(f,{box:"border-box"})}),r.clear()}))}},unobserve:u=>{var d;r.delete(u),(d=l())==null||d.unobserve(u)}}})(),this.range=null,this.setOptions=n=>{var s;let o={debug:!1,initialOffset:0,overscan:1,paddingStart:0,paddingEnd:0,scrollPaddingStart:0,scrollPaddingEnd:0,horizontal:!1,getItemKey:j0,rangeExtractor:yi,onChange:()=>{},measureElement:G0,initialRect:{width:0,height:0},scrollMargin:0,gap:0,indexAttribute:"data-index",initialMeasurementsCache:[],lanes:1,anchorTo:"start",followOnAppend:!1,scrollEndThreshold:1,isScrollingResetDelay:150,enabled:!0,isRtl:!1,useScrollendEvent:!1,useAnimationFrameWithResizeObserver:!1,laneAssignmentMode:"estimate",useCachedMeasurements:!1};for(let d in n){let f=n[d];f!==void 0&&(o[d]=f)}let i=this.options,r=null,l=null,c=!1;if(i!==void 0&&i.enabled&&o.enabled&&o.anchorTo==="end"&&this.scrollElement!==null){let d=i.count,f=o.count,h=this.getMeasurements(),p=((s=this._singleLaneMeasurements)==null?void 0:s.items)??h,m=O=>Xp(p[O]),x=d>0?m(0):null,S=d>0?m(d-1):null;if(f!==d||d>0&&f>0&&(o.getItemKey(0)!==x||o.getItemKey(f-1)!==S)){c=!0;let O=d>0?this.getVirtualItemForOffset(this.getScrollOffset())??h[0]:null;O&&(r=[O.key,this.getScrollOffset()-O.start]);let I=o.followOnAppend===!0?"auto":o.followOnAppend||null;I&&f>0&&this.isAtEnd(i.scrollEndThreshold)&&(d===0||o.getItemKey(f-1)!==S)&&(f>d||Y0(d,f,m,o.getItemKey))&&(l=I)}}this.options=o,c&&(this.pendingMin=0,this.itemSizeCacheVersion++);let u=null;if(r&&this.scrollOffset!==null&&!this._awaitingCommandReadBack()){let[d,f]=r,h=this.getMeasurements(),{count:p,getItemKey:m}=this.options,x=0;for(;x<p&&m(x)!==d;)x++;if(x<p){let S=h[x];if(S){let T=Math.max(0,S.start+f);!l&&T!==this.scrollOffset&&(u=T-this.scrollOffset,this.scrollOffset=T)}}}l?this.pendingScrollAnchor={kind:"follow",behavior:l}:u!==null&&(this._canWriteScroll()?this.pendingScrollAnchor={kind:"anchor",delta:u}:(this._holdOffset+=u,this._followOffsetTarget(u)))},this.notify=n=>{var s,o;(o=(s=this.options).onChange)==null||o.call(s,this,n)},this.maybeNotify=jt(()=>(this.calculateRange(),[this.isScrolling,this.range?this.range.startIndex:null,this.range?this.range.endIndex:null]),n=>{this.notify(n)},{key:!1,debug:()=>this.options.debug,initialDeps:[this.isScrolling,this.range?this.range.startIndex:null,this.range?this.range.endIndex:null]}),this.cleanup=()=>{var n;this.unsubs.filter(Boolean).forEach(s=>s()),this.unsubs=[],this.observer.disconnect(),this.rafId!=null&&this.targetWindow&&(this.targetWindow.cancelAnimationFrame(this.rafId),this.rafId=null),this.scrollState=null,(n=this._momentumStop)==null||n.restore(),this._momentumStop=null,this.isScrolling=!1,this.scrollDirection=null,this._holdOffset=0,this._reportedOverscroll=!1,this._clampedAdjustment=null,this.pendingWrite=null,this.scrollElement=null,this.targetWindow=null},this._didMount=()=>()=>{this.cleanup()},this._willUpdate=()=>{var n;let s=this.options.enabled?this.options.getScrollElement():null;if(this.scrollElement!==s){if(this.cleanup(),!s){this.maybeNotify();return}this.scrollElement=s,this.scrollElement&&"ownerDocument"in this.scrollElement?this.targetWindow=this.scrollElement.ownerDocument.defaultView:this.targetWindow=((n=this.scrollElement)==null?void 0:n.window)??null,this.elementsCache.forEach(i=>{this.observer.observe(i)}),this.unsubs.push(this.options.observeElementRect(this,i=>{this.scrollRect=i,this.maybeNotify()})),this.unsubs.push(this.options.observeElementOffset(this,(i,r)=>{var l,c,u,d;let f=r?this._elementMaxScrollOffset():null,h=this._reportedOverscroll;this._reportedOverscroll=i<0||f!==null&&i>f+1;let p=i;this._lastElementOffset=p,i=this._toLayoutOffset(i);let m=this._classifyScrollEvent(i,r,f);if(m==="spurious")return;m==="readBack"?i=this.pendingWrite.target:m==="clampedReadBack"&&((l=this.scrollState)==null?void 0:l.index)!=null&&i<this.getMaxScrollOffset()-1.5?this.scrollState.lastTargetOffset=i:th({kind:m,offset:i,command:this.scrollState,target:()=>this.getScrollStateTarget(this.scrollState)})&&(this.scrollState=null),this.pendingWrite=null,this._clampedAdjustment!==null&&Math.abs(i-this._clampedAdjustment.maxAtWrite)>=1.5&&(this._clampedAdjustment=null);let x=this.getScrollOffset(),S=this.scrollDirection;this.scrollDirection=r?x===i?this.scrollDirection:x<i?"forward":"backward":null,this.scrollOffset=i,this.isScrolling=r;let T=this.scrollState;if(T?.phase==="queued"&&m==="external"&&r)if(h||this._reportedOverscroll)T.samples=[];else{let k=this.now();T.samples=[...(T.samples??[]).filter(O=>k-O.t<=200),{t:k,offset:p}],(S!==null&&this.scrollDirection!==S||nh(T.samples))&&(this.scrollState=null)}this._iosGesture.onScroll({isScrolling:r,ownReadBack:m==="readBack",moved:i!==x,external:m==="external"&&((c=this.scrollState)==null?void 0:c.phase)!=="smooth"&&((u=this.scrollState)==null?void 0:u.phase)!=="smoothFinishing"})&&((d=this.scrollState)==null?void 0:d.phase)==="queued"&&(this.scrollState=null),this._flushHoldIfReady(!0),this.scrollState&&this.scheduleScrollReconcile(),this.maybeNotify()})),"addEventListener"in this.scrollElement&&this.unsubs.push(this._iosGesture.listen(this.scrollElement)),this._scrollToOffset(this.getScrollOffset())}this._noteClampMax();let o=this.pendingScrollAnchor;this.pendingScrollAnchor=null,o&&this.scrollElement&&this.options.enabled&&(o.kind==="anchor"?this._canWriteScroll()?Os(this.scrollState)&&!$t(this.getScrollOffset()-o.delta,this.scrollState.lastTargetOffset)||(this._followOffsetTarget(o.delta),this._scrollToOffset(this.getScrollOffset())):(this._holdOffset+=o.delta,this._followOffsetTarget(o.delta),this.notify(!1)):this.scrollToEnd({behavior:o.behavior})),this._flushHoldIfReady(!1),this._retryClampedAdjustment()},this._classifyScrollEvent=(n,s,o)=>{var i;return eh({offset:n,isScrolling:s,elementMax:o,holdOffset:this._holdOffset,scrollOffset:this.scrollOffset,pendingWrite:this.pendingWrite,clampedMaxAtWrite:((i=this._clampedAdjustment)==null?void 0:i.maxAtWrite)??null})},this._retryClampedAdjustment=()=>{if(this._clampedAdjustment===null||!this.scrollElement||!this.options.enabled||!this._canWriteScroll())return;let{target:n,maxAtWrite:s}=this._clampedAdjustment,o=this.getMaxScrollOffset();o>s+.5&&(this._clampedAdjustment=n>o+.5?{target:n,maxAtWrite:o}:null,this._scrollToOffset(n))},this._writeAwaitingCommand=()=>{let n=this.scrollState;if(n===null||n.phase!=="queued")return;let{behavior:s}=n;this.getMeasurements();let o=this.getScrollStateTarget(n);n.lastTargetOffset=o,this._clampedAdjustment=null,n.phase=ah(s,n.index!=null&&$t(o,this.getScrollOffset())),this._scrollToOffset(o,{behavior:s}),this.scheduleScrollReconcile()},this._readElementOffset=()=>{let n=this.scrollElement;if(n==null)return null;let{horizontal:s,isRtl:o}=this.options;return typeof n.scrollTop=="number"?s?n.scrollLeft*(o&&-1||1):n.scrollTop:typeof n.scrollY=="number"?s?n.scrollX:n.scrollY:null},this._canWriteScroll=()=>!(Cs()&&this._iosGesture.inMotion())&&!this._reportedOverscroll,this._flushHoldIfReady=n=>{var s;if(this._holdOffset===0||!this.scrollElement||!this.options.enabled||!this._canWriteScroll()||((s=this.scrollState)==null?void 0:s.phase)==="smooth")return;this._holdOffset=0,this.scrollOffset!==null&&this.scrollOffset<0&&(this.scrollOffset=0),this.notify(n);let o=this.getCommandWrittenOffset()??this.getScrollOffset();this._clampedAdjustment=this._clampedBy(o),this._scrollToOffset(o)},this.rafId=null,this.getSize=()=>this.options.enabled?(this.scrollRect=this.scrollRect??this.options.initialRect,this.scrollRect[this.options.horizontal?"width":"height"]):(this.scrollRect=null,0),this.getScrollOffset=()=>this.options.enabled?(this.scrollOffset=this.scrollOffset??(typeof this.options.initialOffset=="function"?this.options.initialOffset():this.options.initialOffset),this.scrollOffset):(this.scrollOffset=null,0),this.getMeasurementOptions=jt(()=>[this.options.count,this.options.paddingStart,this.options.scrollMargin,this.options.getItemKey,this.options.enabled,this.options.lanes,this.options.laneAssignmentMode,this.options.gap],(n,s,o,i,r,l,c,u)=>(this.prevLanes!==void 0&&this.prevLanes!==l&&(this.lanesChangedFlag=!0),this.prevLanes=l,this.pendingMin=null,{count:n,paddingStart:s,scrollMargin:o,getItemKey:i,enabled:r,lanes:l,laneAssignmentMode:c,gap:u}),{key:!1}),this.isIndexInRange=n=>n>=0&&n<this.options.count,this.getMeasurements=jt(()=>[this.getMeasurementOptions(),this.itemSizeCacheVersion],({count:n,paddingStart:s,scrollMargin:o,getItemKey:i,enabled:r,lanes:l,laneAssignmentMode:c,gap:u},d)=>{var f;let h=this.itemSizeCache;if(!r)return this.measurementsCache=[],this._singleLaneMeasurements=null,this.itemSizeCache.clear(),this.laneAssignments.clear(),[];if(this.laneAssignments.size>n)for(let k of this.laneAssignments.keys())k>=n&&this.laneAssignments.delete(k);this.lanesChangedFlag&&(this.lanesChangedFlag=!1,this.lanesSettling=!0,this.measurementsCache=[],this._singleLaneMeasurements=null,this.itemSizeCache.clear(),this.laneAssignments.clear(),this.pendingMin=null),this.measurementsCache.length===0&&!this.lanesSettling&&(this.measurementsCache=this.options.initialMeasurementsCache,this.measurementsCache.forEach(k=>{this.itemSizeCache.set(k.key,k.size)}));let p=this.lanesSettling?0:this.pendingMin??0;if(this.pendingMin=null,this.lanesSettling&&this.measurementsCache.length===n&&(this.lanesSettling=!1),l===1){let k=n*2,O=(f=this._singleLaneMeasurements)==null?void 0:f.flat;if(!O||O.length<k){let Q=new Float64Array(k);O&&p>0&&Q.set(O.subarray(0,p*2)),O=Q}let I=p===0?new Array(n):this._singleLaneMeasurements.items.slice(),V;if(p===0)V=s+o;else{let Q=p-1;V=O[Q*2]+O[Q*2+1]+u}for(let Q=p;Q<n;Q++){let $e=i(Q);I[Q]=$e;let gt=h.get($e),ke=typeof gt=="number"?gt:this.options.estimateSize(Q);O[Q*2]=V,O[Q*2+1]=ke,V+=ke+u}this._singleLaneMeasurements={flat:O,items:I};let le=Qp(I,O);return this.measurementsCache=le,le}let m=this.measurementsCache.slice(0,p),x=new Array(l).fill(void 0),S=new Float64Array(l),T=0;for(let k=0;k<p;k++){let O=m[k];O&&(x[O.lane]===void 0&&T++,x[O.lane]=k,S[O.lane]=O.end)}for(let k=p;k<n;k++){let O=i(k),I=this.laneAssignments.get(k),V,le,Q=c==="estimate"||h.has(O);if(I!==void 0&&this.options.lanes>1){V=I;let Ce=x[V],fe=Ce!==void 0?m[Ce]:void 0;le=fe?fe.end+u:s+o}else if(T===l){let Ce=0,fe=S[0],_e=x[0];for(let Ht=1;Ht<l;Ht++){let Mi=S[Ht];(Mi<fe||Mi===fe&&x[Ht]<_e)&&(Ce=Ht,fe=Mi,_e=x[Ht])}V=Ce,le=fe+u,Q&&this.laneAssignments.set(k,V)}else V=k%this.options.lanes,le=s+o,Q&&this.laneAssignments.set(k,V);let $e=h.get(O),gt=typeof $e=="number"?$e:this.options.estimateSize(k),ke=le+gt;m[k]={index:k,start:le,size:gt,end:ke,key:O,lane:V},x[V]===void 0&&T++,x[V]=k,S[V]=ke}return this.measurementsCache=m,m},{key:!1,debug:()=>this.options.debug}),this.calculateRange=jt(()=>[this.getMeasurements(),this.getSize(),this.getScrollOffset(),this.options.lanes,this._getLayoutTotalSize()+this.options.scrollMargin],(n,s,o,i,r)=>{if(n.length===0||s===0)return this.range=null,null;let l=Math.max(r-s,0);return this.range=X0(n,s,Math.min(o,l),i,i===1&&this._singleLaneMeasurements!==null?this._singleLaneMeasurements.flat:null),this.range},{key:!1,debug:()=>this.options.debug}),this.getVirtualIndexes=jt(()=>{let n=null,s=null,o=this.calculateRange();return o&&(n=o.startIndex,s=o.endIndex),this.maybeNotify.updateDeps([this.isScrolling,n,s]),[this.options.rangeExtractor,this.options.overscan,this.options.count,n,s,this.options.lanes]},(n,s,o,i,r,l)=>i===null||r===null?[]:n({startIndex:i,endIndex:r,overscan:s,count:o,lanes:l}),{key:!1,debug:()=>this.options.debug}),this.indexFromElement=n=>{let s=this.options.indexAttribute,o=n.getAttribute(s);return o?parseInt(o,10):(console.warn(`Missing attribute name '${s}={index}' on measured element.`),-1)},this.shouldMeasureDuringScroll=n=>{var s;if(!Os(this.scrollState))return!0;let o=this.scrollState.index??((s=this.getVirtualItemForOffset(this.scrollState.lastTargetOffset))==null?void 0:s.index);if(o!==void 0&&this.range){let i=Math.max(this.options.overscan,Math.ceil((this.range.endIndex-this.range.startIndex)/2)),r=Math.max(0,o-i),l=Math.min(this.options.count-1,o+i);return n>=r&&n<=l}return!0},this.measureElement=n=>{if(!n){this.elementsCache.forEach((r,l)=>{r.isConnected||(this.observer.unobserve(r),this.elementsCache.delete(l))});return}let s=this.indexFromElement(n);if(!this.isIndexInRange(s))return;let o=this.options.getItemKey(s),i=this.elementsCache.get(o);i!==n&&(i&&this.observer.unobserve(i),this.observer.observe(n),this.elementsCache.set(o,n)),n.isConnected&&(!this.isScrolling||this.scrollState)&&this.shouldMeasureDuringScroll(s)&&this.resizeItem(s,this.options.measureElement(n,void 0,this))},this.resizeItem=(n,s)=>{var o,i,r;if(!this.isIndexInRange(n))return;(o=this._resizeBatch)!=null&&o.sync&&this.getMeasurements();let l,c,u,d=(i=this._singleLaneMeasurements)==null?void 0:i.flat;if(this.options.lanes===1&&d!=null)u=this.options.getItemKey(n),c=d[n*2],l=d[n*2+1];else{let p=this.measurementsCache[n];if(!p)return;u=p.key,c=p.start,l=p.size}let f=this.itemSizeCache.get(u)??l,h=s-f;if(h!==0){let p=this.options.anchorTo==="end"&&!Os(this.scrollState)&&this.getVirtualDistanceFromEnd()<=this.options.scrollEndThreshold,m=p?this._getLayoutTotalSize():0,x=this.getScrollOffset(),T=!this.itemSizeCache.has(u)?c<x:c+f<=x&&this.scrollDirection!=="backward",k=!Os(this.scrollState)&&(this.shouldAdjustScrollPositionOnItemSizeChange!==void 0?this.shouldAdjustScrollPositionOnItemSizeChange(this.measurementsCache[n]??{index:n,key:u,start:c,size:l,end:c+l,lane:0},h,this):T);(this.pendingMin===null||n<this.pendingMin)&&(this.pendingMin=n),this.itemSizeCache.set(u,s),this.itemSizeCacheVersion++;let O=!1;if(this._awaitingCommandReadBack()||(p?O=this.applyScrollAdjustment(this._getLayoutTotalSize()-m):k&&(O=this.applyScrollAdjustment(h))),this._resizeBatch){this._resizeBatch.notify=!0,(r=this._resizeBatch).sync||(r.sync=O);return}this.notify(O),this._noteClampMax(),this._flushHoldIfReady(!0),this._retryClampedAdjustment()}},this.getVirtualItems=jt(()=>[this.getVirtualIndexes(),this.getMeasurements(),this._holdOffset],(n,s,o)=>{let i=[];for(let r=0,l=n.length;r<l;r++){let c=n[r],u=s[c];i.push(o===0?u:{...u,start:u.start-o,end:u.end-o})}return i},{key:!1,debug:()=>this.options.debug}),this.getVirtualItemForOffset=n=>{var s;let o=this.getMeasurements();if(o.length===0)return;let i=(s=this._singleLaneMeasurements)==null?void 0:s.flat,r=this.options.lanes===1&&i!=null,l=ch(0,o.length-1,r?c=>i[c*2]:c=>xa(o[c]).start,n);return xa(o[l])},this._noteClampMax=()=>{if(!this._awaitingCommandReadBack())return;let n=this._elementMaxScrollOffset();if(n===null)return;let s=this.pendingWrite,o=Math.max(n,0)+this._holdOffset;if(o>=s.target)return;let i=s.lowMaxes??(s.lowMaxes=[]);i[i.length-1]!==o&&i.push(o)},this.getMaxScrollOffset=()=>(this._elementMaxScrollOffset()??0)+this._holdOffset,this._toLayoutOffset=n=>{var s;let o=n+this._holdOffset;return((s=this.pendingScrollAnchor)==null?void 0:s.kind)==="anchor"&&(o+=this.pendingScrollAnchor.delta),o},this._elementMaxScrollOffset=()=>{let n=this.scrollElement;if(n===null)return null;if("scrollHeight"in n)return this.options.horizontal?n.scrollWidth-n.clientWidth:n.scrollHeight-n.clientHeight;if("document"in n){let s=n.document.documentElement;return this.options.horizontal?s.scrollWidth-n.innerWidth:s.scrollHeight-n.innerHeight}return null},this._momentumStop=null,this._stopMomentum=n=>{let s=this.scrollElement,o=this.targetWindow;if(s===null||o===null)return;let i="document"in s?s.document.scrollingElement:s;if(!i?.style)return;if(this._momentumStop){this._momentumStop.done=n;return}let{style:r}=i,l=this.options.horizontal?"overflow-x":"overflow-y",c=r.getPropertyValue(l),u=r.getPropertyPriority(l),d=()=>this.options.horizontal?i.clientHeight:i.clientWidth,f=d();if(r.setProperty(l,"hidden","important"),d()!==f){r.setProperty(l,c,u);return}let h={restore:()=>r.getPropertyValue(l)!=="hidden"||r.getPropertyPriority(l)!=="important"?!1:(r.setProperty(l,c,u),!0),done:n};this._momentumStop=h,o.requestAnimationFrame(()=>o.requestAnimationFrame(()=>{this._momentumStop===h&&(this._momentumStop=null,h.restore()&&h.done())}))},this._clampedBy=n=>{let s=this._elementMaxScrollOffset();if(s===null)return null;let o=s+this._holdOffset;return n>o+.5?{target:n,maxAtWrite:o}:null},this.getVirtualDistanceFromEnd=()=>Math.max(this._getLayoutTotalSize()+this.options.scrollMargin-this.getSize()-this.getScrollOffset(),0),this.getDistanceFromEnd=()=>Math.max(this.getMaxScrollOffset()-this.getScrollOffset(),0),this.isAtEnd=(n=this.options.scrollEndThreshold)=>this.getDistanceFromEnd()<=n,this.getOffsetForAlignment=(n,s,o=0)=>{if(!this.scrollElement)return 0;let i=this.getSize(),r=this.getScrollOffset();s==="auto"&&(s=n>=r+i?"end":"start"),s==="center"?n+=(o-i)/2:s==="end"&&(n-=i);let l=this.getMaxScrollOffset();return Math.max(Math.min(l,n),0)},this.getOffsetForIndex=(n,s="auto")=>{n=Math.max(0,Math.min(n,this.options.count-1));let o=this.getSize(),i=this.getScrollOffset(),r=this.getMeasurements()[n];if(!r)return;if(s==="auto")if(r.end>=i+o-this.options.scrollPaddingEnd)s="end";else if(r.start<=i+this.options.scrollPaddingStart)s="start";else return[i,s];if(s==="end"&&n===this.options.count-1){let c=this.getMaxScrollOffset(),u=c-this.options.paddingEnd+this.options.scrollPaddingEnd;return[Math.max(Math.min(u,c),0),s]}let l=s==="end"?r.end+this.options.scrollPaddingEnd:r.start-this.options.scrollPaddingStart;return[this.getOffsetForAlignment(l,s,r.size),s]},this.scrollToOffset=(n,{align:s="start",behavior:o="auto"}={})=>{this._startScroll({index:null,align:s},this.getOffsetForAlignment(n,s),o,"absolute")},this.scrollToIndex=(n,{align:s="auto",behavior:o="auto"}={})=>{n=Math.max(0,Math.min(n,this.options.count-1));let i=this.getOffsetForIndex(n,s);if(!i)return;let[r,l]=i;this._startScroll({index:n,align:l},r,o,"absolute")},this.scrollBy=(n,{behavior:s="auto"}={})=>{let o=this.getOffsetForAlignment((this.getCommandWrittenOffset()??this.getScrollOffset())+n,"start");this._startScroll({index:null,align:"start"},o,s,"relative")},this.scrollToEnd=({behavior:n="auto"}={})=>{if(this.options.count>0){this._startScroll({index:this.options.count-1,align:"end",toEnd:!0},Math.max(this.getMaxScrollOffset(),0),n,"absolute");return}this.scrollToOffset(Math.max(this.getTotalSize()-this.getSize(),0),{behavior:n})},this.cancelScroll=()=>{this.rafId!=null&&this.targetWindow&&(this.targetWindow.cancelAnimationFrame(this.rafId),this.rafId=null),this.scrollState=null},this.getTotalSize=()=>Math.max(this._getLayoutTotalSize()-this._holdOffset,0),this._getLayoutTotalSize=()=>{var n,s;let o=this.getMeasurements(),i;if(o.length===0)i=this.options.paddingStart;else if(this.options.lanes===1){let r=o.length-1,l=(n=this._singleLaneMeasurements)==null?void 0:n.flat;l!=null?i=l[r*2]+l[r*2+1]:i=((s=o[r])==null?void 0:s.end)??0}else{let r=Array(this.options.lanes).fill(null),l=o.length-1;for(;l>=0&&r.some(c=>c===null);){let c=o[l];r[c.lane]===null&&(r[c.lane]=c.end),l--}i=Math.max(...r.filter(c=>c!==null))}return Math.max(i-this.options.scrollMargin+this.options.paddingEnd,0)},this.takeSnapshot=()=>{let n=[];if(this.itemSizeCache.size===0)return n;let s=this.getMeasurements();for(let o of s)o&&this.itemSizeCache.has(o.key)&&n.push({index:o.index,key:o.key,start:o.start,size:o.size,end:o.end,lane:o.lane});return n},this._scrollToOffset=(n,{adjustments:s,behavior:o}={})=>{let i={target:n+(s??0),smooth:o==="smooth"};return this.pendingWrite=i,this.options.scrollToFn(n-this._holdOffset,{behavior:o,adjustments:s},this),i},this.getCommandWrittenOffset=()=>this.scrollState!==null&&this.pendingWrite!==null&&!this.pendingWrite.smooth?this.pendingWrite.target:null,this._awaitingCommandReadBack=()=>{let n=this.getCommandWrittenOffset();return!(Cs()&&this._iosGesture.dragging())&&n!==null&&!$t(n,this.getScrollOffset())},this._followOffsetTarget=n=>{this.scrollState!==null&&this.scrollState.index==null&&(this.scrollState.lastTargetOffset+=n)},this.measure=()=>{this.pendingMin=null,this.itemSizeCache.clear(),this.laneAssignments.clear(),this.itemSizeCacheVersion++,this.notify(!1)},this.setOptions(e)}get scrollAdjustments(){return 0}applyScrollAdjustment(e,n){if(e===0)return!1;if(this._followOffsetTarget(e),this._canWriteScroll()){let s=this.getScrollOffset();this._clampedAdjustment=this._clampedBy(s+e);let o=this._scrollToOffset(s,{adjustments:e,behavior:n});return this.scrollOffset!==null&&(this.pendingWrite===o&&(this.scrollOffset+=e),this.scrollOffset<0&&(this.scrollOffset=0)),!0}else return this._holdOffset+=e,this.scrollOffset!==null&&(this.scrollOffset+=e),!0}scheduleScrollReconcile(){if(!this.targetWindow){this.scrollState=null;return}this.rafId==null&&(this.rafId=this.targetWindow.requestAnimationFrame(()=>{this.rafId=null,this.reconcileScroll()}))}getScrollStateTarget(e){let n=e.toEnd?[Math.max(this.getMaxScrollOffset(),0)]:e.index!=null?this.getOffsetForIndex(e.index,e.align):void 0;return n?n[0]:e.lastTargetOffset}reconcileScroll(){if(!this.scrollState||!this.scrollElement)return;if(this.now()-this.scrollState.startedAt>5e3){this.scrollState=null;return}if(this.scrollState.phase==="queued"){this.scheduleScrollReconcile();return}this.getMeasurements();let s=this.getScrollStateTarget(this.scrollState),o=this.scrollState.index==null?1:this.options.useAnimationFrameWithResizeObserver?3:2,i=s!==this.scrollState.lastTargetOffset;if(!i&&$t(s,this.getScrollOffset())){if(this.scrollState.phase==="smooth"?this.scrollState.phase="smoothLanded":this.scrollState.phase==="smoothFinishing"&&(this.scrollState.phase="instant"),this.scrollState.stableFrames++,this.scrollState.stableFrames>=o){this.getScrollOffset()!==s&&this._scrollToOffset(s,{behavior:"auto"}),this.scrollState=null;return}}else if(this.scrollState.stableFrames=0,i){let r=this.getSize()||600,l=Math.abs(s-this.getScrollOffset()),c=Os(this.scrollState)&&l>r;this.scrollState.lastTargetOffset=s,c?this.scrollState.phase="smooth":this.scrollState.phase==="smooth"?this.scrollState.phase="smoothFinishing":this.scrollState.phase==="smoothLanded"&&(this.scrollState.phase="instant"),this._scrollToOffset(s,{behavior:c?"smooth":"auto"})}this.scheduleScrollReconcile()}_startScroll(e,n,s,o){this.pendingScrollAnchor=null,this._clampedAdjustment=null;let i=this._iosGesture.tail();if(o==="absolute"&&i!==null){if(i==="fling"&&oh()){this._stopMomentum(()=>{let r=this.scrollState;r?.phase!=="queued"||this._iosGesture.tail()!=="fling"||this._reportedOverscroll||(this._iosGesture.end(),this._flushHoldIfReady(!0),this._writeAwaitingCommand())}),this.scrollState={...e,startedAt:this.now(),lastTargetOffset:n,stableFrames:0,phase:"queued",behavior:s,samples:[]},this.scheduleScrollReconcile();return}this._iosGesture.end()}this.scrollState={...e,startedAt:this.now(),lastTargetOffset:n,stableFrames:0,behavior:s,phase:ah(s,e.index!=null&&$t(n,this.getScrollOffset()))},this._scrollToOffset(n,{behavior:s}),this.scheduleScrollReconcile()}},ch=(t,e,n,s)=>{for(;t<=e;){let o=(t+e)/2|0,i=n(o);if(i<s)t=o+1;else if(i>s)e=o-1;else return o}return t>0?t-1:0};function J0(t,e,n){let s=0;for(;s<=e;){let o=(s+e)/2|0,i=t[o*2];if(i<n)s=o+1;else if(i>n)e=o-1;else return o}return s>0?s-1:0}function X0(t,e,n,s,o){let i=t.length-1;if(t.length<=s)return{startIndex:0,endIndex:i};if(s===1&&o!==null){let u=J0(o,i,n),d=u,f=n+e;for(;d<i&&o[d*2]+o[d*2+1]<f;)d++;return{startIndex:u,endIndex:d}}let l=ch(0,i,u=>t[u].start,n),c=l;if(s===1)for(;c<i&&t[c].end<n+e;)c++;else if(s>1){let u=Array(s).fill(0);for(;c<i&&u.some(f=>f<n+e);){let f=t[c];u[f.lane]=f.end,c++}let d=Array(s).fill(n+e);for(;l>=0&&d.some(f=>f>=n);){let f=t[l];d[f.lane]=f.start,l--}l=Math.max(0,l-l%s),c=Math.min(i,c+(s-1-c%s))}return{startIndex:l,endIndex:c}}function _i(t){let[,e]=y(0),n=()=>e(i=>i+1),s=w(null),o={observeElementOffset:Ca,scrollToFn:Oa,observeElementRect:(i,r)=>Ea(i,l=>{r(l),n()}),rangeExtractor:Nt(i=>Q0(yi(i),s.current),[]),...t,onChange:n};return s.current?s.current.setOptions(o):s.current=new Ts(o),M(()=>s.current._didMount(),[]),M(()=>s.current._willUpdate()),s.current}function Q0(t,e){let n=Z0(e);return n<0||n>=t[0]&&n<=t.at(-1)?t:n<t[0]?[n,...t]:[...t,n]}function Z0({scrollElement:t,elementsCache:e,options:{count:n,getItemKey:s}}){let{activeElement:o}=document;if(!t?.contains(o))return-1;let i=o.closest("[data-index]"),[r]=[...e].find(([,c])=>c===i)??[];if(r===void 0)return-1;let l=Number(i.dataset.index);if(l<n&&s(l)===r)return l;for(let c=0;c<n;c+=1)if(s(c)===r)return c;return-1}var uh=15;function dh({state:t}){let{transcript:e}=t,{reading:n}=e,s=w(null),o=q(null),i=ex(t),r=Dt(()=>Yp(e,t.rounds.value,i.items.value,i.notes.value)).value,l=n.left.value===null,c=_i({count:r.length,getScrollElement:()=>s.current,getItemKey:Nt(p=>r[p].key,[r]),estimateSize:p=>Jp(e,r[p]),initialOffset:()=>jp(c,r,n.place)??Number.MAX_SAFE_INTEGER,initialMeasurementsCache:n.place?.sizes,overscan:6,anchorTo:"end",followOnAppend:l,scrollEndThreshold:l?1:-1,paddingStart:8,paddingEnd:24}),u=zp(e,c,s);ix(e,c,r.length),tx(s,c.getTotalSize());let d=Cp(e,c,r),f=e.loading.value!==null,h=e.hasEarlier.value||e.hasLater.value?-1:r.length;return a`<div class="transcript">
    <${rx} transcript=${e} place=${u} />
    <div
      ref=${s}
      class="transcript-box"
      role=${r.length?"feed":"region"}
      aria-label="Messages"
      aria-busy=${f}
      tabindex="0"
      ...${u.handlers}
    >
      ${r.length===0&&!f&&a`<${lx} />`}
      <${ht.Provider} value=${n.folds}><${Mn.Provider} value=${o}>
        <div class="rows" style=${{height:`${c.getTotalSize()}px`}}>
          ${c.getVirtualItems().map(({key:p,index:m,start:x})=>{let S=r[m];return a`<article
              key=${p}
              ref=${c.measureElement}
              class="${nx(S)} ${p===d?"linked":""}"
              style=${{top:`${x}px`}}
              data-index=${m}
              aria-posinset=${m+1}
              aria-setsize=${h}
              ...${ox(e,S)}
            >
              <${sx} state=${t} row=${S} isLatest=${S.end===i.items.value.at(-1)} />
            </article>`})}
        </div>
      <//><//>
    </div>
    ${o.value&&a`<${vp} path=${o.value} onClose=${()=>o.value=null} />`}
    <${ax} transcript=${e} place=${u} />
  </div>`}function ex(t){let{order:e,hasLater:n}=t.transcript,s=yn(t),o=l=>t.transcript.message(e.value.at(l))?.peek().seq,[i,r]=[o(0),n.value?o(-1):1/0];return v(()=>s.watch(),[s]),v(()=>{i!==void 0&&s.cover(i,r)},[i,r]),s}function tx(t,e){let n=e<innerHeight?`${e}px`:"";M(()=>t.current.closest("main").style.setProperty("--rows",n),[n])}function nx({round:t,end:e,note:n,isAnswer:s}){return n?"row note-row":t?"row round-rule":e?"row run-end-row":s?"row answer":"row"}function sx({state:t,row:{id:e,isMore:n,round:s,end:o,note:i,hasAnswer:r},isLatest:l}){return s?a`<${Hp} sessionId=${t.id} round=${s} />`:i?a`<${fh(i)[0]} state=${t} note=${i} />`:o?a`<${Kp} ...${{state:t,end:o,isLatest:l,hasAnswer:r}} />`:a`<${Bp} ...${{state:t,id:e,isMore:n}} />`}function fh({subagent_id:t,command_id:e,server:n}){return t?[Ep,"Sub-agent"]:e?[kp,"Background command"]:[Sp,`MCP server ${_(n)}`]}function ox(t,{id:e,round:n,end:s,note:o}){if(o)return{"data-note":o.seq,"aria-label":fh(o)[1]};if(s)return{"data-run-end":s.seq,"aria-label":`End of a run: ${s.outcome.replace("_"," ")}`};if(n)return{"data-round":n.round,"aria-label":`Compaction round ${n.round}`};let i=t.message(e)?.peek();return i?{"data-message-id":e,"data-role":i.role,"aria-label":ba(i)}:{}}function ix(t,e,n){let{hasEarlier:s,hasLater:o,loading:i,problem:r}=t,l=!i.value&&!r.value,c=s.value,u=o.value;M(()=>{let{range:d}=e;!l||!d||(c&&d.startIndex<uh?t.loadEarlier().catch(()=>{}):u&&d.endIndex>n-uh&&t.loadLater().catch(()=>{}))})}function rx({transcript:t,place:e}){let n=t.problem.value,s=()=>{t.problem.value=null,e.focus()};return n?a`<${F} problem=${n} onRetry=${s} />`:t.loading.value?a`<div class="transcript-loading" role="status">Loading messages…</div>`:null}function ax({transcript:t,place:e}){let n=t.reading.left.value;if(!(n!==null||t.hasLater.value))return null;let o=n===null?0:t.arrived.value-n;return a`<div class="transcript-ways">
    <${C} onClick=${e.toFirst}>First message<//>
    <${C} kind="primary" onClick=${e.toNewest}>
      Jump to newest${o>0?a` <span class="numbers">(${$(o)} new)</span>`:""}
    <//>
  </div>`}function lx(){return a`<div class="transcript-empty">
    <h2>No messages yet</h2>
    <p>Write below what the agent should do. It starts as soon as you send the message.</p>
  </div>`}function ph({state:t}){return a`<${Gf} state=${t} />
    <${Vf} state=${t} />
    <${dh} state=${t} />
    <${dp} state=${t} />`}var cx=200,Mt=1e4,xi={Session:["session.created","session.updated","session.deleted","session.running","session.idle","session.recovered","source.started","source.completed","source.failed"],Messages:["message.queued","message.edited","message.withdrawn","message.dequeued","message.created"],Steps:["step.started","step.retrying","step.finished","text.completed","reasoning.completed","plan.updated"],Tools:["tool.call","tool.result","approval.requested","approval.resolved","command.started","command.ended","subagent.started","subagent.finished","mcp.ready","mcp.failed"],Workspace:["checkpoint.failed","workspace.restored"],Context:["prune.completed","compaction.started","compaction.completed","compaction.failed","compaction.retrying","compaction.cancelled","compaction.reverted","compaction.discarded"]},wi=class{items=g([]);hasEarlier=g(!1);hasLater=g(!1);loading=g(!1);problem=g(null);#e;#t;#n=0;#s=null;#o=0;#i=null;constructor(e,n){this.#e=e,this.#t=n}async start(){this.#o+=1,this.#i=this.#e.follower.peek();let e=this.#e.log.peek(),n=e.at(-1)?.seq??this.#i?.lastId??this.#e.session.peek().last_seq;D(()=>{this.items.value=bi(e.filter(this.#l)),this.hasLater.value=!1,this.#n=n,this.#r(String(e[0]?.seq??n+1))}),await this.loadEarlier()}follow(e){if(e.length===0||this.hasLater.peek())return;if(e[0].seq>this.#n+1||this.#i!==this.#e.follower.peek()){this.start();return}let n=e.filter(({seq:o})=>o>this.#n);if(n.length===0)return;this.#n=e.at(-1).seq;let s=bi([...this.items.peek(),...n.filter(this.#l)]);s.length>Mt&&this.#r(String(s.at(-Mt).seq)),this.items.value=s.slice(-Mt)}waiting(e){return e.filter(n=>n.seq>this.#n&&this.#l(n)).length}async loadEarlier(){let e=this.#o,n=0;for(;this.#s!==null&&n===0;){let s=await this.#c({order:"desc",after:this.#s});if(s===null||e!==this.#o)return;n=s.items.length,D(()=>{this.#r(s.next_cursor),this.#a(bi([...s.items.toReversed(),...this.items.peek()]))})}}#a(e){this.items.value=e.slice(0,Mt),!(e.length<=Mt)&&(this.hasLater.value=!0,this.#n=this.items.peek().at(-1).seq)}async loadLater(){let e=this.#o,n=await this.#c({after:String(this.#n)});n===null||e!==this.#o||D(()=>{let s=bi([...this.items.peek(),...n.items]);s.length>Mt&&this.#r(String(s.at(-Mt).seq)),this.items.value=s.slice(-Mt),this.#n=n.next_cursor===null?n.last_seq:Number(n.next_cursor),this.hasLater.value=n.next_cursor!==null})}#r(e){this.#s=e,this.hasEarlier.value=e!==null&&Number(e)!==1}async#c(e){if(this.loading.peek())return null;this.loading.value=!0,this.problem.value=null;let n=new URLSearchParams({...e,limit:cx});this.#t.length&&n.set("types",this.#t.join(","));try{return await E(`${b(this.#e.id,"log")}?${n}`)}catch(s){return this.problem.value=s,null}finally{this.loading.value=!1}}#l=({type:e})=>this.#t.length===0||this.#t.includes(e)};function bi(t){let e=0;return t.filter(({seq:n})=>{let s=n>e;return e=Math.max(e,n),s})}function hh({types:t,onTypes:e,text:n,onText:s}){let o=L();return a`<${ux} types=${t} onTypes=${e} />
    <div class="event-search">
      <label class="hidden" for=${o}>Filter events</label>
      <input
        id=${o}
        type="search"
        placeholder="Filter events"
        value=${n}
        onInput=${i=>s(i.currentTarget.value)}
      />
    </div>`}function ux({types:t,onTypes:e}){let[n,s]=y(!1),o=w(null),i=L();v(()=>{if(!n)return;let c=u=>!o.current.contains(u.target)&&s(!1);return document.addEventListener("pointerdown",c),()=>document.removeEventListener("pointerdown",c)},[n]);let r=c=>{c.key!=="Escape"||!n||(s(!1),o.current.querySelector("button").focus())},l=c=>e(t.includes(c)?t.filter(u=>u!==c):[...t,c]);return a`<div class="type-chooser" ref=${o} onKeyDown=${r}>
    <button type="button" aria-expanded=${n} aria-controls=${i} onClick=${()=>s(!n)}>
      ${t.length===0?"All types":t.length===1?t[0]:`${t.length} types`}
      ${" "}<span aria-hidden="true">▾</span>
    </button>
    <div id=${i} class="type-panel" hidden=${!n}>
      ${Object.entries(xi).map(([c,u])=>a`<${dx} key=${c} ...${{group:c,names:u,types:t,toggle:l}} />`)}
      <button type="button" disabled=${t.length===0} onClick=${()=>e([])}>Show all types</button>
    </div>
  </div>`}function dx({group:t,names:e,types:n,toggle:s}){return a`<fieldset>
    <legend>${t}</legend>
    ${e.map(o=>a`<label class="check" key=${o}>
        <input type="checkbox" checked=${n.includes(o)} onChange=${()=>s(o)} />
        <code>${o}</code>
      </label>`)}
  </fieldset>`}var fx=240,px=t=>String(new Date(t).getMilliseconds()).padStart(3,"0"),Ta=new WeakMap;function Ma({data:t}){if(!Ta.has(t)){let{type:e,seq:n,session_id:s,at:o,...i}=t;Ta.set(t,JSON.stringify(i))}return Ta.get(t)}function mh({event:t,isOpen:e,onToggle:n}){let{seq:s,type:o,data:i}=t,r=()=>De(JSON.stringify({seq:s,type:o,data:i},null,2)).then(()=>P("Copied."));return a`<div class="event-line">
      <button type="button" class="event-head" aria-expanded=${e} onClick=${n}>
        <span class="fold-mark" aria-hidden="true">${e?"▾":"▸"}</span>
        <span class="event-seq numbers">${s}</span>
        <time class="event-time numbers dim" datetime=${i.at}>${de(i.at)}.${px(i.at)}</time>
        <span class="event-type">${_(o)}</span>
        <span class="event-brief dim">${_(Ma(t).slice(0,fx))}</span>
      </button>
      <${C} kind="plain" aria-label=${`Copy event ${s}`} onClick=${r}>Copy<//>
    </div>
    ${e&&a`<${ae} label=${`Event ${s} as JSON`} text=${R(JSON.stringify(i,null,2))} />`}`}var hx=4,$h=20,mx=32,$x=new Set(Object.values(xi).flat());function gh({state:t}){let{types:e="",q:n=""}=X.value.query,s=N(()=>e.split(",").filter(u=>$x.has(u)),[e]),o=N(()=>new wi(t,s),[t,s]),i=q(!0);v(()=>{i.value=!0,o.start()},[o]);let r=t.log.value;v(()=>{i.peek()&&o.follow(r)},[o,r,i.value]);let l=gx(o.items.value,n),c=w(null);return a`<div class="events-view">
    <div class="toolbar">
      <${hh}
        types=${s}
        onTypes=${u=>ze({types:u.join()})}
        text=${n}
        onText=${u=>ze({q:u})}
      />
      <${wx} state=${t} />
    </div>
    <p class="events-count dim">
      ${vx(o,l,n)} Streaming deltas aren't stored.
    </p>
    ${o.problem.value&&a`<${F} problem=${o.problem.value} onRetry=${()=>o.loadEarlier()} />`}
    <${yx} key=${s.join()} ...${{box:c,log:o,items:l,follows:i}} isSearched=${n!==""} />
    <${bx} ...${{box:c,log:o,live:r,follows:i}} isSearched=${n!==""} />
  </div>`}function gx(t,e){let n=N(()=>new WeakMap,[e]);return N(()=>{let s=e.toLowerCase(),o=r=>r.type.includes(s)||Ma(r).toLowerCase().includes(s),i=r=>(n.has(r)||n.set(r,o(r)),n.get(r));return s?t.filter(i):t},[t,e])}function vx(t,e,n){let s=t.items.value.length;if(s===0)return t.loading.value?"Loading…":"No matching events.";let o=`${$(s)} ${t.hasEarlier.value?"loaded ":""}${s===1?"event":"events"}`;return n?`${$(e.length)} of ${o} match.`:t.hasEarlier.value?`${o}; scroll up to load earlier ones.`:`${o}.`}function yx({box:t,log:e,items:n,follows:s,isSearched:o}){let[i,r]=y(()=>new Set),l=_i({count:n.length,getScrollElement:()=>t.current,getItemKey:Nt(u=>n[u].seq,[n]),estimateSize:()=>mx,initialOffset:()=>Number.MAX_SAFE_INTEGER,overscan:8,anchorTo:"end",followOnAppend:s.value,scrollEndThreshold:s.value?1:-1});_x({box:t,virtualizer:l,log:e,follows:s,size:n.length,isSearched:o});let c=u=>{s.value=!1,l.cancelScroll();let d=new Set(i);d.delete(u)||d.add(u),r(d)};return a`<div ref=${t} class="events-box" role="region" aria-label="Events" tabindex="0">
    <div class="rows" role="list" style=${{height:`${l.getTotalSize()}px`}}>
      ${l.getVirtualItems().map(({key:u,index:d,start:f})=>a`<div
          key=${u}
          ref=${l.measureElement}
          class="event-row"
          role="listitem"
          data-index=${d}
          data-seq=${u}
          style=${{transform:`translateY(${f}px)`}}
        >
          <${mh} event=${n[d]} isOpen=${i.has(u)} onToggle=${()=>c(u)} />
        </div>`)}
    </div>
  </div>`}function _x({box:t,virtualizer:e,log:n,follows:s,size:o,isSearched:i}){let r=w(0),l=({scrollHeight:u,clientHeight:d,scrollTop:f})=>{let h=u-d-f<=hx&&!n.hasLater.peek();return h&&(s.value=!0),h};M(()=>{l(t.current)},[e.getTotalSize()]),v(()=>{let{current:u}=t,d=()=>{!l(u)&&u.scrollTop<r.current&&(s.value=!1),r.current=u.scrollTop};return u.addEventListener("scroll",d,{capture:!0,passive:!0}),()=>u.removeEventListener("scroll",d,{capture:!0})},[n]);let c=!n.loading.value&&!n.problem.value;M(()=>{let{range:u}=e;s.peek()&&o>0&&e.scrollToEnd(),!(!c||!u)&&(n.hasEarlier.peek()&&!i&&u.startIndex<$h?n.loadEarlier():n.hasLater.peek()&&u.endIndex>o-$h&&n.loadLater())})}function bx({box:t,log:e,live:n,follows:s,isSearched:o}){let i=!s.value||e.hasLater.value,r=i?e.waiting(n):0,l=()=>t.current.focus({preventScroll:!0}),c=()=>{s.value=!0,e.hasLater.peek()&&e.start(),l()},u=async()=>{await e.loadEarlier(),e.hasEarlier.peek()||l()};return a`<div class="events-ways">
    ${o&&e.hasEarlier.value&&a`<${C} onClick=${u}>Search earlier events<//>`}
    ${i&&a`<button type="button" class="primary" onClick=${c}>
      Jump to newest${r>0?a` <span class="numbers">(${$(r)} new)</span>`:""}
    </button>`}
  </div>`}function wx({state:t}){let[e]=y(()=>t.follower.peek()?.lastId??t.session.peek().last_seq),s=`curl -N -H "Authorization: Bearer $PALIMPSEST_API_KEY" '${`${location.origin}${b(t.id,"events")}?after=${e}`}'`;return a`<details class="curl">
    <summary>Follow with curl</summary>
    <pre tabindex="0" role="region" aria-label="Command">${s}</pre>
    <p class="dim">Without “after”, it starts at the first event. A server without API keys needs no header.</p>
    <${C} onClick=${()=>De(s).then(()=>P("Copied."))}>Copy<//>
  </details>`}var vh=28,xx={directory:"folder",file:"file",symlink:"link",other:"special file"};function _h({files:t,active:e,onDrop:n}){let s=w(null),o=L(),[i,r]=y(null),l=kx(t),c=l.findIndex(({path:m,notice:x})=>!x&&m===e.value);v(()=>{c>=0&&s.current.contains(document.activeElement)&&Tn(s.current,c,vh)},[c]);let u=m=>{l[m]&&!l[m].notice&&(e.value=l[m].path)},d=m=>{u(m),bh(t,l[m])},f=m=>{m.ctrlKey||m.metaKey||m.altKey||Ex(m.key,{rows:l,at:c,go:u,files:t})&&m.preventDefault()},h=m=>{m.preventDefault(),r(yh(m,l))},p=m=>a`<${Mx}
    key=${m}
    id=${`${o}-${m}`}
    row=${l[m]}
    index=${m}
    isActive=${m===c}
    isOpen=${t.file.value?.path===l[m].path}
    isTarget=${i!==null&&Ox(l[m],i)}
    onPress=${()=>d(m)}
  />`;return a`<${On}
    box=${s}
    class="file-tree"
    inner=${{role:"tree",tabindex:0,"aria-label":"Files","aria-activedescendant":c>=0?`${o}-${c}`:void 0,onKeyDown:f,onFocus:()=>c<0&&u(l.findIndex(({notice:m})=>!m))}}
    count=${l.length}
    height=${vh}
    row=${p}
    onDragOver=${h}
    onDragLeave=${({relatedTarget:m})=>s.current.contains(m)||r(null)}
    onDrop=${m=>{m.preventDefault(),m.stopPropagation(),r(null),n(m.dataTransfer,yh(m,l))}}
  />`}function kx(t){let e=t.folders.value,n=t.expanded.value,s=[],o=(i,r)=>{let l=e.get(i);for(let u of l?.items??[]){let d=u.type==="directory",f=d&&n.has(u.path);s.push({...u,level:r,isFolder:d,isExpanded:f}),f&&o(u.path,r+1)}let c=Sx(l);c&&s.push({path:i,level:r,notice:c})};return o("",1),s}function Sx(t){return t?.problem?t.problem.message:t?.items?t.truncated?`Only the first ${$(t.items.length)} entries are shown.`:t.items.length===0?"Empty.":null:"Loading…"}function bh(t,{path:e,type:n,isFolder:s,isExpanded:o}){s&&o?t.close(e):s?t.open(e):n==="file"&&t.show(e)}function Ex(t,{rows:e,at:n,go:s,files:o}){let i=e[n],r=(l,c)=>{let u=l+c;for(;e[u]?.notice;)u+=c;return u};switch(t){case"ArrowDown":return s(r(n,1)),!0;case"ArrowUp":return s(r(n,-1)),!0;case"Home":return s(r(-1,1)),!0;case"End":return s(r(e.length,-1)),!0;case"Enter":case" ":return i&&bh(o,i),!0;case"ArrowRight":return i?.isFolder&&!i.isExpanded?o.open(i.path):i?.isFolder&&s(r(n,1)),!0;case"ArrowLeft":return i?.isExpanded?o.close(i.path):i&&s(e.findIndex(({path:l,notice:c})=>!c&&l===Ge(i.path))),!0;default:return t.length===1&&Cx(t,{rows:e,at:n,go:s})}}function Cx(t,{rows:e,at:n,go:s}){let o=[...e.keys()].map(l=>(n+1+l)%e.length),i=({path:l,notice:c})=>!c&&mt(l).toLowerCase().startsWith(t.toLowerCase()),r=o.find(l=>i(e[l]));return r!==void 0&&s(r),r!==void 0}function yh(t,e){let n=t.target.closest?.("[data-index]")?.dataset.index,s=n===void 0?null:e[Number(n)];return s?s.isFolder||s.notice?s.path:Ge(s.path):""}var Ox=({path:t},e)=>e===""||t===e||t.startsWith(`${e}/`);function Tx({type:t,isFolder:e,isExpanded:n}){return e?n?"▾":"▸":t==="symlink"?"↪":""}function Mx({id:t,row:e,index:n,isActive:s,isOpen:o,isTarget:i,onPress:r}){let{path:l,level:c,notice:u,type:d,size:f,modified_at:h,isFolder:p,isExpanded:m}=e,x={id:t,role:"treeitem","aria-level":c,"data-index":n,style:{"--level":c}},S=`${s?"active":""} ${i?"target":""}`;return u?a`<div ...${x} class="tree-row notice ${S}" aria-disabled="true"><span>${u}</span></div>`:a`<div
    ...${x}
    class="tree-row ${d} ${S}"
    aria-expanded=${p?m:void 0}
    aria-selected=${o}
    title=${`${_(l)}
${xx[d]}${p?"":`, ${j(f)}`}
${pe(h)}`}
    onClick=${r}
  >
    <span class="tree-mark" aria-hidden="true">${Tx(e)}</span>
    <span class="tree-name">${_(mt(l))}</span>
    <span class="tree-size dim">${d==="file"?j(f):d==="symlink"?"link":""}</span>
    <span class="tree-time dim"><${he} time=${h} /></span>
  </div>`}var wh=20,Ax=2e5,Rx=1e3,Lx=20,Ix=8,ki=g(!0);function xh({files:t,sessionId:e,modifiedAt:n}){let{path:s,loading:o,problem:i,text:r,size:l}=t.file.value;return a`<section class="file-view" aria-label="File">
    <header>
      <h2>
        <span class="dim">${Ge(s)&&`${_(Ge(s))}/`}</span>${_(mt(s))}
      </h2>
      <p class="dim">${[l!==null&&j(l),n&&pe(n)].filter(Boolean).join(" · ")}</p>
      <div class="file-buttons">
        <a class="button" href=${Qt(e,s)} download=${mt(s)}>Download</a>
        ${r&&a`<${C} onClick=${()=>De(r).then(()=>P("Copied."))}>Copy<//>`}
        ${r&&a`<button type="button" aria-pressed=${ki.value} onClick=${()=>ki.value=!ki.value}>
          Wrap lines
        </button>`}
        <button type="button" onClick=${()=>t.hide()}>Close</button>
      </div>
    </header>
    ${i&&a`<${F} problem=${i} onRetry=${()=>t.show(s)} />`}
    ${o&&a`<p class="dim" aria-busy="true">Loading…</p>`}
    ${!o&&!i&&a`<${Nx} path=${s} text=${r} size=${l} />`}
  </section>`}function Nx({path:t,text:e,size:n}){return e===null?a`<p class="file-notice">This file is not UTF-8 text, so it can't be shown. You can download it.</p>`:n===0?a`<p class="file-notice">The file is empty.</p>`:a`${n>bs&&a`<p class="file-notice">
      Showing the first ${j(bs)} of ${j(n)}. Download the file to see the rest.
    </p>`}
    <${Px} key=${t} path=${t} text=${e} />`}function Px({path:t,text:e}){let[n,s]=y(80),o=N(()=>R(e),[e]),i=ki.value?n:Rx,r=N(()=>wo(o,i),[o,i]),l=Dx(t,o),c=h=>s(Math.max(Lx,Math.floor(h/bn())-Ix)),u=w(null),d=Number(X.value.query.line);M(()=>{let h=d?r.lines.indexOf(d):-1;h>=0&&Tn(u.current,h,wh)},[r,d]);let f=h=>a`<div key=${h} class="line ${d&&r.lines[h]===d?"linked":""}">
    <span class="line-number" aria-hidden="true" onClick=${()=>ze({line:r.lines[h]})}>
      ${r.lines[h]||""}
    </span>
    <code>${Ee(o,r.starts[h],r.ends[h],l).map(hn)}</code>
  </div>`;return a`<${On}
    class="file-lines"
    box=${u}
    tabindex="0"
    role="region"
    aria-label=${`${_(mt(t))}, ${$(r.lines.findLast(h=>h>0))} lines`}
    count=${r.lines.length}
    height=${wh}
    row=${f}
    onWidth=${c}
  />`}function Dx(t,e){let[n,s]=y({text:null,tokens:[]});return v(()=>{let o=xo(t);if(!o||e.length>Ax)return;let i=!0;return ls(e,o).then(r=>i&&r&&s({text:e,tokens:r})),()=>{i=!1}},[t,e]),n.text===e?n.tokens:[]}var Fx=400;function kh({state:t}){let e=fi(t),n=q(e.file.peek()?.path??null);Bx(t,e),Wx(e);let[s,o]=y(null),i=w(null);qx(e.file.value!==null,i);let r=e.folders.value.get(""),{path:l}=e.file.value??{},c=Ux(e,n.value),u=async(f,h)=>{let p=await jx(e,f,h);p.length?o({found:f,folder:h,replaced:p}):await e.upload(f,h)},d=(f,h)=>u(Hx(f),h);return r?.problem&&!r.items?a`<div class="page"><${F} problem=${r.problem} onRetry=${()=>e.load("")} /></div>`:a`<div
    class="files-view"
    onDragOver=${f=>f.preventDefault()}
    onDrop=${f=>(f.preventDefault(),d(f.dataTransfer,""))}
  >
    <${zx} state=${t} files=${e} target=${c} onFiles=${f=>u(f,c)} />
    <${Gx} files=${e} />
    <div ref=${i} class="files-panes ${e.file.value?"has-file":""}">
      <${_h} files=${e} active=${n} onDrop=${d} />
      ${e.file.value?a`<${xh} files=${e} sessionId=${t.id} modifiedAt=${e.entry(l)?.modified_at} />`:a`<p class="file-none dim">Select a file to view it, or drop files on a folder to upload them.</p>`}
    </div>
    ${s&&a`<${Kx} files=${e} ...${s} onClose=${()=>o(null)} />`}
  </div>`}function Wx(t){let{path:e}=X.value.query;v(()=>{e&&e!==t.file.peek()?.path&&t.show(e)},[e]);let n=t.file.value?.path;v(()=>{let{path:s=""}=t.file.peek()??{};s!==(X.peek().query.path??"")&&ze({path:s,line:""})},[n])}function Bx(t,e){let{steps:n,status:s}=t.session.value,o=w(!0);v(()=>{if(o.current){o.current=!1,e.refresh();return}let i=setTimeout(()=>e.refresh(),Fx);return()=>clearTimeout(i)},[n,s])}function qx(t,e){let n=w(t);v(()=>{let s=n.current&&!t;n.current=t,!(!s||document.activeElement!==document.body)&&e.current?.querySelector('[role="tree"]')?.focus({preventScroll:!0})},[t])}function Ux(t,e){let n=e&&t.entry(e);return n?n.type==="directory"?e:Ge(e):""}function zx({state:t,files:e,target:n,onFiles:s}){let o=w(null),i=L();return a`<div class="toolbar">
    <${C} onClick=${()=>e.refresh()}>Refresh<//>
    <label class="hidden" for=${i}>Files to upload</label>
    <input ref=${o} id=${i} type="file" multiple hidden onChange=${({currentTarget:l})=>{let c=[...l.files];l.value="",s(c)}} />
    <button type="button" onClick=${()=>o.current.click()}>Upload files</button>
    <span class="dim">into ${n?a`<code>${_(n)}/</code>`:"the workspace"}</span>
    <span class="spacer"></span>
    <a class="button" href=${b(t.id,"archive")} download=${`${t.id}.tar`}>Download all (.tar)</a>
  </div>`}async function jx(t,e,n){await t.load(n);let s=[];for(let{name:o}of e)await t.has(ma(n,o))&&s.push(o);return s}function Hx(t){let e=[...t.items].filter(({kind:s})=>s==="file"),n=s=>s.webkitGetAsEntry?.()?.isDirectory;return e.some(n)&&P("Folders can't be uploaded. Drop the files in them instead."),e.filter(s=>!n(s)).map(s=>s.getAsFile())}function Kx({files:t,found:e,folder:n,replaced:s,onClose:o}){let i=s.slice(0,5).map(_).join(", "),r=s.length>5?` and ${s.length-5} more`:"",l=async()=>{t.upload(e,n)};return a`<${Te}
    title=${s.length===1?"Replace file?":"Replace files?"}
    text=${`Already in the workspace: ${i}${r}.`}
    verb="Replace"
    onConfirm=${l}
    onClose=${o}
  />`}function Gx({files:t}){let e=t.uploads.value;if(e.length===0)return null;let n=e.some(({status:s})=>s!=="sending");return a`<section class="uploads" aria-label="Uploads">
    <ul>
      ${e.map(s=>a`<li key=${s.id} class=${s.status}>
          <span class="upload-name">${_(s.path)}</span>
          ${s.status==="sending"&&a`<progress value=${s.share} max="1" aria-label=${`Upload of ${_(s.path)}`}></progress>
            <span class="dim numbers">${J(s.share)}</span>`}
          ${s.status==="done"&&a`<span class="badge good">uploaded</span>`}
          ${s.status==="failed"&&a`<span class="badge bad">not uploaded</span> <span role="alert">${s.detail}</span>`}
        </li>`)}
    </ul>
    ${n&&a`<button type="button" class="plain" onClick=${()=>t.clearUploads()}>Clear list</button>`}
  </section>`}var Vx=t=>U(t*1e3);function Sh({session:t,run:e,attempts:n,knownCost:s}){let{limits:o,usage:i}=t;return a`<div class="limits">
    <${Yx} used=${e&&Sd(e,n)} most=${o.max_steps} />
    <${Xx} run=${e} most=${o.max_seconds} />
    <${Si} name="Total tokens" used=${Fe(i)} most=${o.max_tokens} format=${$} />
    <${Jx} cost=${i.cost_usd} knownCost=${s} most=${o.max_cost_usd} />
  </div>`}function Yx({used:t,most:e}){let n=e!==null&&t===e+1;return a`<${Si} name="Steps of this run" used=${n?e:t} most=${e} format=${$} note=${n?", plus a closing step":""} />`}function Jx({cost:t,knownCost:e,most:n}){return a`<${Si} name="Total cost" used=${t??e} most=${n} format=${te} note=${t===null?", some prices unknown":""} />`}function Xx({run:t,most:e}){let n=t?.endedAt??Le.value,s=t&&Math.max(0,(n-t.startedAt)/1e3);return a`<${Si} name="Time of this run" used=${s} most=${e} format=${Vx} />`}function Si({name:t,used:e,most:n,format:s,note:o=""}){let i=`${s(e??0)} ${n===null?"· no limit":`of ${s(n)}`}${o}`;return a`<div class="limit">
    <span class="limit-name">${t}</span>
    <span class="numbers">${i}</span>
    ${n!==null&&a`<${Qx} name=${t} share=${(e??0)/n} text=${i} />`}
  </div>`}function Qx({name:t,share:e,text:n}){let s=Math.min(100,Math.round(e*100)),o=e>=1?"full":e>=.8?"near":"";return a`<span
    class="limit-bar ${o}"
    role="meter"
    aria-label=${t}
    aria-valuemin="0"
    aria-valuemax="100"
    aria-valuenow=${s}
    aria-valuetext=${n}
  >
    <span style=${{width:`${s}%`}}></span>
  </span>`}var Ms=["model","tools","waiting","compaction"];function Eh(t,e){let n=new Map(e.map(({round:i,duration_ms:r})=>[i,r])),s=[],o=null;for(let i of Map.groupBy(t,({step:r})=>r).values()){let r=i.at(-1),l=Date.parse(i[0].started_at);if(r.duration_ms!==null&&r.finish_reason!==null){let c=r.compaction_round===o?.round?0:n.get(r.compaction_round)??0,u=o?Math.max(0,Math.min(c,l-o.end)):0;s.push({step:r.step,...Zx(r,l),compaction:u,total:r.duration_ms+u})}o={round:r.compaction_round,end:l+(r.duration_ms??0)}}return s}function Zx({started_at:t,duration_ms:e,model_ms:n,waiting_ms:s=0},o){if(n==null)return{model:null,tools:null,waiting:s};let i=Math.min(e,Date.parse(t)-o+n);return{model:i,tools:Math.max(0,e-i-s),waiting:s}}function Ch(t){let e=n=>t.reduce((s,o)=>s+(o[n]??0),0);return Object.fromEntries([...Ms,"total"].map(n=>[n,e(n)]))}var Oh={model:"Model",tools:"Tools",waiting:"Waiting for you",compaction:"Compaction"};function Th({attempts:t,rounds:e,isLoading:n}){let s=Eh(t,e),[o,i]=Ro(s);if(s.length===0)return a`<p class="dim">${n?"Loading…":"No steps have ended yet."}</p>`;let r=Ch(s),l=Math.max(...s.map(({total:c})=>c));return a`<dl class="figures">
      <${Ze} name="All steps" value=${U(r.total)} />
      ${Ms.map(c=>a`<${Ze} key=${c} value=${r[c]?U(r[c]):"none"}
          name=${a`<span class="key ${c}" aria-hidden="true"></span> ${Oh[c]}`}>
          ${r[c]>0&&J(r[c]/r.total)}
        <//>`)}
    </dl>
    <${et} name="Time by step">
      <thead>
        <tr>
          <th scope="col">Step</th>
          <th scope="col" class="number">Total</th>
          ${Ms.map(c=>a`<th key=${c} scope="col" class="number">${Oh[c]}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${o.map(c=>a`<${ek} key=${c.step} time=${c} most=${l} />`)}
      </tbody>
    <//>
    ${i}`}function ek({time:t,most:e}){return a`<tr>
    <th scope="row">${$(t.step)}<${nk} time=${t} most=${e} /></th>
    <td class="number">${U(t.total)}</td>
    ${Ms.map(n=>a`<td key=${n} class="number">${tk(t[n],n)}</td>`)}
  </tr>`}function tk(t,e){return t===null?"–":t===0&&(e==="waiting"||e==="compaction")?"":U(t)}function nk({time:t,most:e}){let n=["compaction","model","tools","waiting"],s=o=>`${e===0?0:(t[o]??0)/e*100}%`;return a`<span class="usage-bar" aria-hidden="true">
    ${n.map(o=>a`<span key=${o} class=${o} style=${{width:s(o)}}></span>`)}
  </span>`}function Mh({state:t}){let e=vn(t);v(()=>e.watch(),[e]);let n=t.session.value,s=e.attempts.value,o=e.rounds.value.filter(({usage:l})=>l&&Fe(l)>0),i=[...s,...o].reduce((l,{usage:c})=>l+(c?.cost_usd??0),0),r=e.problem.value;return a`<div class="session-usage">
    ${r&&a`<${F} problem=${r} onRetry=${()=>e.retry()} />`}
    <section aria-labelledby="used">
      <h2 id="used">Total usage</h2>
      <${Mo} usage=${n.usage} atLeast=${i}>
        <${sk} rounds=${o} total=${n.usage} />
      <//>
      ${n.usage.cost_usd===null&&a`<p class="hint">
        The price of a model is unknown, so the cost is too. You can set prices in
        ${" "}<code>PALIMPSEST_MODELS</code>.
      </p>`}
    </section>
    <section aria-labelledby="limits">
      <h2 id="limits">Limits</h2>
      <${Sh} session=${n} run=${yn(t).run.value} attempts=${s} knownCost=${i} />
    </section>
    <section aria-labelledby="times">
      <h2 id="times">Time</h2>
      <${Th} attempts=${s} rounds=${e.rounds.value} isLoading=${e.progress.value!==null} />
    </section>
    <section aria-labelledby="by-step">
      <h2 id="by-step">By step</h2>
      <${ok} attempts=${s} isLoading=${e.progress.value!==null} />
    </section>
  </div>`}function sk({rounds:t,total:e}){let n=To(t.map(r=>r.usage)),s=e.cost_usd!==null&&e.cost_usd>0,o=s?n.cost_usd/e.cost_usd:Fe(n)/(Fe(e)||1);if(t.length===0)return a`<${Ze} name="Compaction" value="none" />`;let i=n.cost_usd===null?"cost unknown":te(n.cost_usd);return a`<${Ze} name="Compaction" value=${J(o)}>
    of the ${s?"cost":"tokens"}: ${$(Fe(n))} tokens, ${i}
  <//>`}function ok({attempts:t,isLoading:e}){let[n,s]=Ro(t);if(t.length===0)return a`<p class="dim">${e?"Loading…":"No steps yet."}</p>`;let o=t.filter(({usage:r})=>r),i=Math.max(...o.map(({usage:r})=>Fe(r)),0);return a`<p class="dim">Tokens: <${Io} /></p>
    <${et} name="Usage by step">
      <thead>
        <tr>
          <th scope="col">Step</th>
          <${Ao} />
        </tr>
      </thead>
      <tbody>
        ${n.map(r=>a`<${ik} key=${r.message_id} row=${r} most=${i} />`)}
      </tbody>
    <//>
    ${s}`}function ik({row:{step:t,attempt:e,usage:n,finish_reason:s},most:o}){return a`<tr>
    <th scope="row">
      ${$(t)}${e>1&&a`<span class="dim"> attempt ${e}</span>`}
      ${n&&a`<${Lo} usage=${n} most=${o} />`}
    </th>
    ${n&&s?a`<${fs} usage=${n} />`:a`<td class="dim" colspan="6">running</td>`}
  </tr>`}var rk={conversation:ph,context:jf,files:kh,changes:uf,usage:Mh,events:gh},Ah={conversation:"Conversation",context:"Context",files:"Files",changes:"Changes",usage:"Usage",events:"Events"};function Rh({id:t}){let e=N(()=>new Ko(t),[t]);M(()=>(Hu(),e.open(),()=>e.close()),[e]);let n=e.session.value;if(v(()=>{ct.value=n?ge(n):""},[n&&ge(n)]),Od(n),e.deleted.value)return a`<${lk} />`;if(e.problem.value)return a`<main class="page"><${ak} problem=${e.problem.value} state=${e} /></main>`;if(!n||!Mr.value)return a`<main class="page"><p class="dim" aria-busy="true">Loading…</p></main>`;let s=X.value.view??ot[0];return a`<div class="session">
    <${ck} state=${e} session=${n} />
    <${dk} id=${t} view=${s} state=${e} />
    <main class="view ${s}" aria-label=${Ah[s]}><${rk[s]} state=${e} /></main>
    <${Uu} />
  </div>`}function ak({problem:t,state:e}){return a`<${F} problem=${t} onRetry=${()=>e.reload()} />
    ${t.mayPass&&a`<p class="dim">Retrying automatically</p>`}`}function lk(){return a`<main class="page">
    <p>This session does not exist. It may have been deleted.</p>
    <p><a href="#/">All sessions</a></p>
  </main>`}function ck({state:t,session:e}){return a`<div class="session-head">
    <h1 title=${uk(e)}>${ge(e)}</h1>
    <${Zt} session=${e} />
    <${Cd} state=${t} session=${e} />
    <${Du} context=${e.context} />
    <span class="dim model">${e.model}</span>
    <${td} state=${t} session=${e} />
    <${ro} follower=${t.follower.value} />
    <${ud} state=${t} session=${e} />
  </div>`}function uk({title:t,task:e,...n}){let s=ge({title:t,task:e,...n}),o=e&&!e.startsWith(s.replace(/…$/,""));return t&&o?`${s}

${R(e)}`:R(e||s)}function dk({id:t,view:e,state:n}){let s=n.approvals.value.length+n.clientCalls.value.length,o=a` <span class="badge waiting">${s}<span class="hidden"> waiting for you</span></span>`;return a`<nav class="tabs" aria-label="Views of this session">
    ${ot.map(i=>a`<a key=${i} href=${B(t,i)} aria-current=${i===e?"page":void 0}>
        ${Ah[i]}${i==="conversation"&&s?o:""}
      </a>`)}
    <button type="button" class="plain tabs-search" onClick=${Jn}>Search</button>
  </nav>`}function Lh(){let[t,e]=y(!1),n=async s=>{let o=s.currentTarget;e(!await xc(o.checked)),o.checked=ut.value};return a`<section aria-labelledby="browser-settings">
    <h2 id="browser-settings">This browser</h2>
    <div class="switches">
      <${Aa} label="Notify me when a session needs me or ends" value=${ut.value} onChange=${n} />
      <${Aa}
        label="Play a sound with notifications"
        value=${to.value}
        onChange=${s=>to.value=s.currentTarget.checked}
        disabled=${!ut.value}
      />
      <${Aa}
        label="Single-key shortcuts (press ? to list them)"
        value=${Xs.value}
        onChange=${s=>Xs.value=s.currentTarget.checked}
      />
    </div>
    ${t&&a`<p class="field-error" role="alert">
      The browser blocks notifications of this page. Allow them in its site settings, then try again.
    </p>`}
  </section>`}function Aa({label:t,value:e,...n}){return a`<label><input type="checkbox" checked=${e} ...${n} /> ${t}</label>`}var La=50,Rn=(...t)=>["/v1/webhooks",...t.map(encodeURIComponent)].join("/"),Ve=g(null),As=g(null);async function Ih(){let t=await E(`/v1/webhooks?limit=${La}`);Ve.value=t.items,As.value=t.next_cursor}async function Nh(){let t=await E(`/v1/webhooks?${new URLSearchParams({limit:La,cursor:As.value})}`);Ve.value=Ra(Ve.value,t.items),As.value=t.next_cursor}var Ra=(t,e)=>[...t,...e.filter(({id:n})=>t.every(s=>s.id!==n))];async function Ph(t){let{secret:e,...n}=await H("/v1/webhooks",t);return Ve.value=[n,...Ve.value??[]],e}async function Ci(t,e){Fh(await Re(Rn(t),e))}async function Dh(t){Fh(await E(Rn(t)))}function Fh(t){Ve.value=Ve.value.map(e=>e.id===t.id?t:e)}async function Wh(t){await we(Rn(t)),Ve.value=Ve.value.filter(e=>e.id!==t)}var Ei=class{items=g(null);next=g(null);#e;#t="";constructor(e){this.#e=e}async load(){let e=this.#t,n=await E(this.#n({}));e===this.#t&&(this.items.value===null&&(this.next.value=n.next_cursor),this.items.value=Ra(n.items,this.items.value??[]))}async more(){let e=await E(this.#n({cursor:this.next.value}));this.items.value=Ra(this.items.value,e.items),this.next.value=e.next_cursor}async filter(e){this.#t=e,this.items.value=null,await this.load()}async test(){await H(Rn(this.#e,"test")),this.items.value!==null&&await this.load()}async retry(e){let n=await H(Rn(this.#e,"deliveries",e,"retry"));this.items.value=this.items.value.map(s=>s.id===e?n:s)}#n(e){let n=new URLSearchParams({limit:La,...this.#t&&{status:this.#t},...e});return`${Rn(this.#e,"deliveries")}?${n}`}},Bh={attention:["session.idle","approval.requested"],all:null};function qh(t){if(!t)return{url:"",kind:"attention",events:"",session:""};let{url:e,events:n,session_id:s}=t,[o="some"]=Object.entries(Bh).find(([,i])=>JSON.stringify(i)===JSON.stringify(n))??[];return{url:e,kind:o,events:n?.join(`
`)??"",session:s??""}}function Uh({url:t,kind:e,events:n,session:s},o){let i={};t.trim()||(i.url="Enter a URL.");let r=n.split(/[\s,]+/).filter(Boolean);e==="some"&&r.length===0&&(i.events="Enter at least one event.");let l={url:t.trim(),events:e==="some"?r:Bh[e]};return o&&s.trim()&&(l.session_id=s.trim()),{body:l,errors:i}}var fk={webhook_address_refused:"url",session_not_found:"session"},pk={url:"url",events:"events",session_id:"session"};function zh(t){let e=t.body.errors??[{field:"",message:t.message}],n={};for(let{field:s,message:o}of e){let i=pk[s.split(".")[0]]??fk[t.code]??"rest";n[i]??=o}return n}var hk=50;function Oi({webhook:t,onClose:e}){let[n,s]=y(()=>qh(t)),[o,i]=y({}),[r,l]=y(null),c=w(null);if(v(()=>{c.current?.querySelector('[aria-invalid="true"]')?.focus()},[o]),r)return a`<${vk} url=${n.url} secret=${r} onClose=${e} />`;async function u(){let{body:f,errors:h}=Uh(n,!t);if(i(h),!(Object.keys(h).length>0)){try{if(t)await Ci(t.id,f);else return l(await Ph(f))}catch(p){return i(zh(p))}return e()}}let d=f=>s({...n,...f});return a`<${ee} title=${t?"Edit webhook":"New webhook"} onClose=${e}>
    <div class="webhook-form" ref=${c}>
      <${G.Provider} value=${{values:n,change:d,errors:o}}>
        <${ye}
          name="url"
          label="URL"
          inputmode="url"
          autocomplete="off"
          autocapitalize="none"
          spellcheck=${!1}
          placeholder="https://hooks.example.com/palimpsest"
        />
        <${mk} />
        ${t?a`<${gk} webhook=${t} />`:a`<${$k} />`}
      <//>
    </div>
    ${o.rest&&a`<div class="failure" role="alert"><p>${o.rest}</p></div>`}
    <footer>
      <button type="button" onClick=${e}>Cancel</button>
      <${C} kind="primary" onClick=${u}>${t?"Save":"Create"}<//>
    </footer>
  <//>`}function mk(){let{values:t}=z(G);return a`<${Ne} name="kind" label="Events">
      <option value="attention">A run has ended, or a call needs approval</option>
      <option value="all">All events</option>
      <option value="some">Some events…</option>
    <//>
    ${t.kind==="some"&&a`<${dt}
      name="events"
      label="Event names"
      help="One per line: a name such as session.idle, or all names of a topic, such as approval.*"
      rows="4"
      class="mono"
      spellcheck=${!1}
      autocapitalize="none"
      placeholder=${`session.idle
approval.*`}
    />`}`}function $k(){let t=L(),[e,n]=y([]);return v(()=>{E(`/v1/sessions?limit=${hk}`).then(({items:s})=>n(s),()=>{})},[]),a`<${ye}
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
      ${e.map(s=>a`<option key=${s.id} value=${s.id}>${ge(s)}</option>`)}
    </datalist>`}function gk({webhook:{session_id:t}}){return a`<p class="dim">${t?a`Only events of session <code>${t}</code>`:"Events of all sessions"}</p>`}function vk({url:t,secret:e,onClose:n}){let s=L(),o=w(null);return v(()=>o.current.select(),[]),a`<${ee} title="Webhook created" staysOpen=${!0} onClose=${n}>
    <p>
      Receivers at <code>${_(t)}</code> verify what they get with this secret. Copy it now; it is not shown
      again.
    </p>
    <div class="field">
      <label for=${s}>Signing secret</label>
      <div class="copy-row">
        <input ref=${o} id=${s} class="mono" readonly autocomplete="off" value=${e} />
        <${C} onClick=${()=>De(e).then(()=>P("Copied."))}>Copy<//>
      </div>
    </div>
    <footer><button type="button" class="primary" onClick=${n}>Done</button></footer>
  <//>`}var yk=2e3,_k={"":"All",pending:"Pending",delivered:"Delivered",failed:"Failed"},bk={pending:"running",delivered:"good",failed:"bad"};function jh({webhook:t,deliveries:e}){let[n,s]=y(null),[o,i]=y(""),r=f=>f.then(()=>(s(null),Dh(t.id))).catch(s),l=()=>r(e.load()),c=e.items.value;v(()=>{l()},[e]);let u=c?.some(f=>f.status==="pending")??!1;return v(()=>{if(!u)return;let f=setInterval(()=>document.visibilityState==="visible"&&l(),yk);return()=>clearInterval(f)},[u,e]),a`<section class="deliveries" aria-label="Deliveries">
    <div class="toolbar">
      <select aria-label="Status of deliveries" value=${o} onChange=${({currentTarget:{value:f}})=>{i(f),r(e.filter(f))}}>
        ${Object.entries(_k).map(([f,h])=>a`<option key=${f} value=${f}>${h}</option>`)}
      </select>
      <${C} onClick=${l}>Refresh<//>
    </div>
    ${n&&a`<${F} problem=${n} onRetry=${l} />`}
    ${!c&&!n&&a`<p class="dim" aria-busy="true">Loading…</p>`}
    ${c?.length===0&&a`<p class="dim">${o?"No such deliveries":"Nothing has been sent yet"}</p>`}
    ${c?.length>0&&a`<${et} name="Deliveries">
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
          ${c.map(f=>a`<${wk} key=${f.id} item=${f} deliveries=${e} />`)}
        </tbody>
      <//>`}
    ${e.next.value!==null&&a`<${C} onClick=${()=>e.more().catch(re)}>Load more<//>`}
  </section>`}function wk({item:t,deliveries:e}){let n=t.status==="delivered"?"Send again":"Send now",{id:s,type:o,session_id:i,seq:r,status:l,attempts:c,created_at:u}=t;return a`<tr>
    <th scope="row">
      <code>${_(o)}</code>
      ${i&&a` <a href=${B(i,"events")} title=${i}>event ${$(r)}</a>`}
    </th>
    <td><${W} kind=${bk[l]}>${l}<//> <${xk} item=${t} /></td>
    <td><${kk} item=${t} /></td>
    <td class="number">${$(c)}</td>
    <td class="dim"><${he} time=${u} /></td>
    <td>
      <${C} aria-label=${`${n}: ${_(o)}`} onClick=${()=>e.retry(s)}>${n}<//>
    </td>
  </tr>`}function xk({item:{status:t,attempts:e,next_attempt_at:n}}){return t!=="pending"||e===0||!n?null:a`<span class="dim">next <${he} time=${n} /></span>`}function kk({item:{response_status:t,error:e,duration_ms:n,attempts:s}}){if(s===0)return a`<span class="dim">–</span>`;let o=e?_(e):`${t}`;return a`<span class=${e?"delivery-error":""}>${o}</span>
    ${n!==null&&a` <span class="dim numbers">${U(n)}</span>`}`}function Hh({webhook:t}){let{id:e,url:n,status:s}=t,o=N(()=>new Ei(e),[e]),[i,r]=y(!1),[l,c]=y(null),u=()=>c(null),d=async()=>{await o.test(),r(!0)},f=s==="active",h=()=>Ci(e,{status:f?"disabled":"active"}).catch(re),p=[{label:"Edit",onClick:()=>c("edit")},{label:f?"Disable":"Enable",onClick:h},{label:"Delete",kind:"danger",onClick:()=>c("delete")}];return a`<li class="webhook">
    <div class="webhook-head">
      <div class="webhook-what">
        <h3>${_(n)}</h3>
        <p><${Sk} webhook=${t} /> <${Ek} webhook=${t} /></p>
      </div>
      <div class="webhook-ways">
        ${!f&&a`<${C} onClick=${h}>Enable<//>`}
        <${C} aria-label=${`Test ${n}`} onClick=${d}>Test<//>
        <button
          type="button"
          aria-expanded=${i}
          aria-label=${`Deliveries to ${n}`}
          onClick=${()=>r(!i)}
        >
          Deliveries
        </button>
        <${$n} label="⋯" name=${`Actions for ${n}`} items=${p} kind="plain" />
      </div>
    </div>
    <${Ck} webhook=${t} />
    ${i&&a`<${jh} webhook=${t} deliveries=${o} />`}
    ${l==="edit"&&a`<${Oi} webhook=${t} onClose=${u} />`}
    ${l==="delete"&&a`<${Te}
      title="Delete webhook?"
      text="Nothing more is sent to ${_(n)}, and its list of deliveries is deleted. This cannot be undone."
      verb="Delete"
      onConfirm=${()=>Wh(e)}
      onClose=${u}
    />`}
  </li>`}function Sk({webhook:{status:t,failing_since:e}}){return t==="disabled"?a`<${W} kind="bad">disabled<//>`:e?a`<${W} kind="warn">failing<//>`:a`<${W} kind="good">active<//>`}function Ek({webhook:{events:t,session_id:e}}){let n=t===null?"all events":a`<code>${t.map(_).join(", ")}</code>`,s=e?a`<a href=${B(e)}>one session</a>`:"all sessions";return a`<span class="dim">${n} of ${s}</span>`}function Ck({webhook:{status:t,disabled_reason:e,disabled_at:n,failing_since:s}}){if(t==="disabled"){let o=e?_(e):"";return a`<p class="webhook-trouble">Disabled${n&&a` <${he} time=${n} />`}${o&&`: ${o}`}</p>`}return s&&a`<p class="webhook-trouble">Deliveries have been failing since <${he} time=${s} /></p>`}function Kh(){let[t,e]=y(null),[n,s]=y(!1),o=()=>Ih().then(()=>e(null),e);v(()=>{ct.value="Settings",o()},[]);let i=Ve.value;return a`<main class="page settings">
    <div class="page-head"><h1>Settings</h1></div>
    <${Lh} />
    <section aria-labelledby="webhooks">
      <div class="page-head">
        <h2 id="webhooks">Webhooks</h2>
        <button type="button" class="primary" onClick=${()=>s(!0)}>New webhook</button>
      </div>
      <p class="dim">
        Sends events of sessions to a URL, in order and until they arrive, signed as${" "}
        <a href="https://www.standardwebhooks.com" target="_blank" rel="noreferrer">Standard Webhooks</a>.
      </p>
      ${t&&a`<${F} problem=${t} onRetry=${o} />`}
      ${!i&&!t&&a`<p class="dim" aria-busy="true">Loading…</p>`}
      ${i?.length===0&&a`<p>No webhooks yet.</p>`}
      ${i?.length>0&&a`<ul class="webhooks" aria-label="Webhooks">
        ${i.map(r=>a`<${Hh} key=${r.id} webhook=${r} />`)}
      </ul>`}
      ${i&&As.value!==null&&a`<${C} onClick=${Nh}>Load more<//>`}
    </section>
    ${n&&a`<${Oi} onClose=${()=>s(!1)} />`}
  </main>`}var Ti=30,Ok=5,Tk=864e5,Mk=Ln(()=>new Intl.DateTimeFormat(void 0,{month:"short",day:"numeric",timeZone:"UTC"})),Gh={cost:{label:"Cost",of:({usage:t})=>t.cost_usd??0,text:te},tokens:{label:"Tokens",of:({usage:t})=>Fe(t),text:oe}};function Vh({items:t}){let e=t.some(({usage:d})=>d.cost_usd>0),[n,s]=y(null),o=n??(e?"cost":"tokens"),i=Gh[o],r=Yh(Ti-1),l=t.filter(({day:d})=>d>=r),c=Ak(l,({model:d})=>d,i.of).sort(([,d],[,f])=>f-d),u=new Map(c.map(([d],f)=>[d,Math.min(f,Ok-1)]));return a`<section class="usage-charts" aria-labelledby="usage-charts">
    <div class="page-head">
      <h2 id="usage-charts">Last ${Ti} days</h2>
      <fieldset class="segments">
        <legend class="hidden">Measure</legend>
        ${Object.entries(Gh).map(([d,{label:f}])=>a`<label key=${d}>
            <input type="radio" name="measure" checked=${d===o} onChange=${()=>s(d)} />
            <span>${f}</span>
          </label>`)}
      </fieldset>
    </div>
    <${Rk} ...${{items:l,measure:i,colors:u}} />
    <${Lk} ...${{models:c,measure:i,colors:u}} />
  </section>`}function Ak(t,e,n){return[...Map.groupBy(t,e)].map(([s,o])=>[s,o.reduce((i,r)=>i+n(r),0)])}function Rk({items:t,measure:e,colors:n}){let s=Map.groupBy(t,({day:d})=>d),o=Array.from({length:Ti},(d,f)=>Yh(Ti-1-f)),i=o.map(d=>(s.get(d)??[]).reduce((f,h)=>f+e.of(h),0)),r=Math.max(...i),l=d=>`${r===0?0:d/r*100}%`,c=i.reduce((d,f)=>d+f,0),u=`${e.label} by day: ${e.text(c)} in total, at most ${e.text(r)} per day`;return a`<figure class="usage-days">
    <figcaption class="dim"><span class="numbers">${e.text(r)}</span> max per day</figcaption>
    <div class="usage-columns" role="img" aria-label=${u}>
      ${o.map((d,f)=>a`<span
          key=${d}
          class="usage-column"
          title=${`${Ia(d)}: ${e.text(i[f])}`}
        >
          ${(s.get(d)??[]).map(h=>a`<span
              key=${h.model}
              data-color=${n.get(h.model)}
              style=${{height:l(e.of(h))}}
            ></span>`)}
        </span>`)}
    </div>
    <p class="usage-axis dim" aria-hidden="true"><span>${Ia(o[0])}</span><span>${Ia(o.at(-1))}</span></p>
  </figure>`}var Yh=t=>new Date(Date.now()-t*Tk).toISOString().slice(0,10),Ia=t=>Mk(new Date(`${t}T00:00:00Z`));function Lk({models:t,measure:e,colors:n}){let s=Math.max(...t.map(([,o])=>o));return a`<ul class="usage-models" aria-label="By model">
    ${t.map(([o,i])=>a`<li key=${o}>
        <span class="usage-model">${o}</span>
        <span class="usage-row" aria-hidden="true">
          <span data-color=${n.get(o)} style=${{width:`${s===0?0:i/s*100}%`}}></span>
        </span>
        <span class="numbers">${e.text(i)}</span>
      </li>`)}
  </ul>`}var Ik=15e3,Jh=30,Nk=Ln(()=>new Intl.DateTimeFormat(void 0,{dateStyle:"medium",timeZone:"UTC"}));function Xh(){let{report:t,problem:e,load:n}=Pk();return v(()=>{ct.value="Usage"},[]),a`<main class="page usage">
    <div class="page-head"><h1>Usage</h1></div>
    ${e&&a`<${F} problem=${e} onRetry=${n} />`}
    ${!t&&!e&&a`<p class="dim" aria-busy="true">Loading…</p>`}
    ${t&&(t.items.length?a`<${Dk} report=${t} />`:a`<p>No model calls yet.</p>`)}
    <${ed} />
  </main>`}function Pk(){let[t,e]=y(null),[n,s]=y(null),o=async()=>{try{let[i]=await Promise.all([E("/v1/usage"),Oo()]);e(i),s(null)}catch(i){s(i)}};return v(()=>{let i=()=>document.visibilityState==="visible"&&o(),r=setInterval(i,Ik);return document.addEventListener("visibilitychange",i),o(),()=>{clearInterval(r),document.removeEventListener("visibilitychange",i)}},[]),{report:t,problem:n,load:o}}function Dk({report:{total:t,items:e}}){let[n,s]=y(Jh),i=[...Map.groupBy(e,({day:l})=>l)].map(([l,c])=>({day:l,models:c,usage:Fk(c)})),r=Math.max(...i.map(({usage:l})=>Fe(l)));return a`<section aria-label="Total usage"><${Mo} usage=${t} atLeast=${Qh(e)} /></section>
    <${Vh} items=${e} />
    <${Wk} items=${e} />
    <section aria-labelledby="by-day">
      <h2 id="by-day">By day and model</h2>
      <p class="dim">Days are in UTC. <${Io} /></p>
      <${et} name="Usage by day and model">
        <thead>
          <tr>
            <th scope="col">Day and model</th>
            <th scope="col" class="number">Steps</th>
            <${Ao} />
          </tr>
        </thead>
        ${i.slice(0,n).map(l=>a`<${Bk} key=${l.day} ...${l} most=${r} />`)}
      <//>
      ${i.length>n&&a`<button type="button" onClick=${()=>s(n+Jh)}>
        Show earlier days (${$(i.length-n)})
      </button>`}
    </section>`}var Qh=t=>t.reduce((e,{usage:n})=>e+(n.cost_usd??0),0),Fk=t=>To(t.map(({usage:e})=>e));function Wk({items:t}){let e=[...new Set(t.filter(({usage:n})=>n.cost_usd===null).map(({model:n})=>n))];return e.length===0?null:a`<p class="hint">
    Some prices of ${e.join(", ")} are unknown: tokens are counted, but the cost is not. You can set prices in
    ${" "}<code>PALIMPSEST_MODELS</code>.
  </p>`}function Bk({day:t,models:e,usage:n,most:s}){return a`<tbody>
    <tr class="day">
      <th scope="rowgroup">
        ${Nk(new Date(`${t}T00:00:00Z`))}
        <${Lo} usage=${n} most=${s} />
      </th>
      <td class="number">${$(e.reduce((o,{steps:i})=>o+i,0))}</td>
      <${fs} usage=${n} atLeast=${Qh(e)} />
    </tr>
    ${e.map(o=>a`<tr key=${o.model}>
        <th scope="row" class="model">${o.model}</th>
        <td class="number">${$(o.steps)}</td>
        <${fs} usage=${o.usage} />
      </tr>`)}
  </tbody>`}function qk(){let t=Oe.value&&!Sl();if(Uk(!t),t)return a`<${Sc} />`;let{page:e,id:n}=X.value,s=o=>e===o?"page":void 0;return a`<header class="top">
      <a class="brand" href="#/"><${Xe} name="mark" /><span>Palimpsest</span></a>
      <nav aria-label="Pages">
        <a href="#/" aria-current=${s("sessions")}>Sessions</a>
        <a href="#/usage" aria-current=${s("usage")}>Usage</a>
        <a href="#/settings" aria-current=${s("settings")}>Settings</a>
      </nav>
      <${dc} />
      <${Oc} />
    </header>
    ${e==="session"&&a`<${Rh} key=${n} id=${n} />`}
    ${e==="sessions"&&a`<${Pu} />`}
    ${e==="usage"&&a`<${Xh} />`}
    ${e==="settings"&&a`<${Kh} />`}
    <${Al} />
    <${uc} />
    ${Oe.value&&a`<${Ec} />`}`}function Uk(t){let e=t&&(X.value.page==="sessions"||ut.value);M(()=>{if(e)return A.open(),()=>A.close()},[e])}function Zh(t){t.defaultPrevented||!t.dataTransfer?.types.includes("Files")||(t.preventDefault(),t.dataTransfer.dropEffect="none")}addEventListener("dragover",Zh);addEventListener("drop",Zh);var zk=5e3,em=document.getElementById("page");em.replaceChildren();Ui(a`<${qk} />`,em);setTimeout(Ol,zk);
//# sourceMappingURL=main.js.map
