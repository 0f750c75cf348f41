// The command agent is an SSH agent with one Ed25519 key, for litewitness. Its arguments are the path of its
// socket and the seed of the key in hexadecimal digits. It prints the fingerprint of the key, and
// ends with its standard input.
package main

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net"
	"os"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

func main() {
	seed, err := hex.DecodeString(os.Args[2])
	if err != nil || len(seed) != ed25519.SeedSize {
		log.Fatal("the seed is not 32 bytes in hexadecimal digits")
	}
	key := ed25519.NewKeyFromSeed(seed)
	keyring := agent.NewKeyring()
	if err := keyring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		log.Fatal(err)
	}
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ssh.FingerprintSHA256(public))
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		conn, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			defer conn.Close()
			_ = agent.ServeAgent(keyring, conn)
		}()
	}
}
