return { __proto__: null, captureIntrinsics, captureObjects, findOriginal, inspectHeap, namesOfGlobals, objectAt, shapeOfRecord };
