package access

import "time"

// What tests of the decoders reach.
var (
	DecodeTokens = decodeTokens
	EncodeTokens = encodeTokens
)

// SetKeyWait changes how long a request waits for the issuer.
func SetKeyWait(i *Issuer, d time.Duration) { i.keys.patience = d }
