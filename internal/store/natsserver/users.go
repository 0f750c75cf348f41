package natsserver

import (
	"crypto/subtle"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// The user names of the connections that the service opens to its own server.
const (
	// serviceUser is the user of Conn, adminUser that of AdminConn.
	serviceUser = "daybook"
	adminUser   = "keeper"
	// gateUser is the beginning of the user name of a gate (consumerproxy.go) in the
	// account of its subscriber. Subscriber.accountName follows.
	gateUser = "gate."
)

// doorkeeper authenticates connections. It implements server.Authentication.
type doorkeeper struct {
	password string // of all users of the service, random for each start
	service  *server.Permissions
	admin    *server.Permissions
	// subscribers is nil without a listener.
	subscribers *subscribers
}

// Check implements server.Authentication.
func (d *doorkeeper) Check(c server.ClientAuthentication) bool {
	login := c.GetOpts()
	if c.Kind() != server.CLIENT {
		return false
	}
	if login.Sig != "" {
		return d.subscribers != nil && d.subscribers.admit(c, login)
	}
	if subtle.ConstantTimeCompare([]byte(login.Password), []byte(d.password)) != 1 {
		return false
	}
	name, isGate := strings.CutPrefix(login.Username, gateUser)
	switch {
	case login.Username == serviceUser:
		c.RegisterUser(&server.User{Username: serviceUser, Permissions: d.service})
	case login.Username == adminUser:
		c.RegisterUser(&server.User{Username: adminUser, Permissions: d.admin})
	case isGate && d.subscribers != nil:
		return d.subscribers.admitGate(c, name)
	default:
		return false
	}
	return true
}

// provesKey reports whether a client signed the nonce of the server with the private key
// that belongs to the public nkey key.
func provesKey(c server.ClientAuthentication, key string) bool {
	sig, err := base64.RawURLEncoding.DecodeString(c.GetOpts().Sig)
	if err != nil {
		if sig, err = base64.StdEncoding.DecodeString(c.GetOpts().Sig); err != nil {
			return false
		}
	}
	user, err := nkeys.FromPublicKey(key)
	nonce := c.GetNonce()
	return err == nil && nkeys.IsValidPublicUserKey(key) && len(nonce) > 0 && user.Verify(nonce, sig) == nil
}

// servicePermissions returns the permissions of serviceUser, so that no fault of this
// process can delete recorded messages over its connections. They deny that it deletes,
// updates or restores a stream or removes a peer of one, deletes a message, and purges
// one of streams or protected. Other streams may be purged: the bucket of blobs is, and
// volumes that are opened later deny purges by their configuration. Without streams,
// everything is permitted.
func servicePermissions(streams, protected []string) *server.Permissions {
	if len(streams) == 0 {
		return nil
	}
	deny := []string{"$JS.API.ACCOUNT.PURGE.>"}
	for _, request := range []string{"DELETE", "UPDATE", "MSG.DELETE", "RESTORE", "PEER.REMOVE"} {
		deny = append(deny, "$JS.API.STREAM."+request+".*")
	}
	for _, stream := range slices.Concat(streams, protected) {
		deny = append(deny, "$JS.API.STREAM.PURGE."+stream)
	}
	return &server.Permissions{Publish: &server.SubjectPermission{Deny: deny}}
}

// adminPermissions returns the permissions of adminUser: to seal a stream, which is a
// change of its configuration, to delete one, and to delete archives. Volumes deny purges by
// their configuration.
func adminPermissions() *server.Permissions {
	return &server.Permissions{Publish: &server.SubjectPermission{
		Allow: []string{"$JS.API.STREAM.UPDATE.*", "$JS.API.STREAM.DELETE.*", "$JS.API.STREAM.PURGE.*", "$JS.API.STREAM.INFO.*"},
	}}
}
