package damage

// KeyAdvice is keyAdvice.
const KeyAdvice = keyAdvice
