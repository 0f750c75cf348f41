return { __proto__: null, constructorName, errorResult, formatArguments, formatProperty, inspectPlainly, inspectWith, newContext, reportElapsed, tableText };
