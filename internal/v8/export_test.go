package v8

// NewWithPrelude makes an isolate that runs another prelude, so that tests can
// reach the host object, which the real one hides.
func NewWithPrelude(cfg Config, prelude string) (*Isolate, error) {
	if err := start(); err != nil {
		return nil, err
	}
	return newIsolate(cfg, nil, []byte(prelude), false)
}
