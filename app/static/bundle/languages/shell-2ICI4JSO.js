import"./chunk-VTCBAB5J.js";var s=(()=>{"use strict";return e=>({name:"Shell Session",aliases:["console","shellsession"],contains:[{className:"meta.prompt",begin:/^\s{0,3}[./~\w\d[\]()@-]*[>%$#][ ]?/,starts:{end:/[^\\](?=\s*$)/,subLanguage:"bash"}}]})})(),a=s;export{a as default};
/*! `shell` grammar compiled for Highlight.js 11.12.0 */
//# sourceMappingURL=shell-2ICI4JSO.js.map
