// Package attack holds tests in which one client of a real server tries to slow,
// starve or kill it for the others. Each test states the bound that holds. It
// has no code of its own besides tests.
package attack
