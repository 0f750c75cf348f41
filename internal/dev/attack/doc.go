// Package attack holds tests in which one client of a real server tries to slow, starve
// or kill the server for other clients. Each test states the limit that the server keeps.
// The package has no code besides tests.
//
// server_test.go runs the server and measures it, load_test.go runs clients in processes
// of their own, and quiet_test.go compares the runs of another tenant with and without
// the load. Each other file is an attack, except for the soak: soak_test.go and the files
// that start with its name combine all attacks.
package attack
