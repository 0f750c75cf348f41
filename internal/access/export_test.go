package access

// What tests of the decoders reach.
var (
	DecodeTokens = decodeTokens
	EncodeTokens = encodeTokens
)
