package retention

import "encoding/hex"

// hashes calls fn with each run of exactly 64 lowercase hex characters in a
// payload. Whatever events name blobs by looks so, also events that this version
// does not know.
func hashes(payload []byte, fn func([32]byte)) {
	var hash [32]byte
	n := 0
	for i := 0; i <= len(payload); i++ {
		if i < len(payload) && (payload[i] >= '0' && payload[i] <= '9' || payload[i] >= 'a' && payload[i] <= 'f') {
			n++
			continue
		}
		if n == 64 {
			_, _ = hex.Decode(hash[:], payload[i-64:i]) // it was just looked at
			fn(hash)
		}
		n = 0
	}
}
