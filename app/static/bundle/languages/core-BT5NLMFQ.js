import{a}from"./chunk-ON3O7F6O.js";import"./chunk-VTCBAB5J.js";export{a as default};
//# sourceMappingURL=core-BT5NLMFQ.js.map
