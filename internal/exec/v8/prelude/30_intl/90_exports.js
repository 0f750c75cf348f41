return { __proto__: null, newShims };
