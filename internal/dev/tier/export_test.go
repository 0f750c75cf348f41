package tier

// Variable is variable.
const Variable = variable
