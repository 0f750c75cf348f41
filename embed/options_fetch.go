package embed

import (
	"errors"
	"net/netip"
	"time"

	"daybook/internal/tools/fetcher"
)

// FetchHeader is a header that is added to requests of scripts to one host.
type FetchHeader = fetcher.HeaderRule

// FetchOAuth gets the access tokens of a FetchHeader.
type FetchOAuth = fetcher.OAuth

// FetchOptions configure the HTTP requests of scripts.
type FetchOptions struct {
	// Policy is a file with a Rego policy, or a directory of such files, that decides about
	// each request. A file that ends in .json names several policies, of which all or any must
	// allow. Without Policy, scripts cannot send requests.
	Policy string
	// Rule is the rule of the policy that decides; several policies may name others. Default:
	// data.mcp.fetch.allow.
	Rule string
	// Headers are added to requests that the policy allows; see ReadFetchHeaders.
	Headers []FetchHeader
	// AllowNetworks are networks that scripts may reach although they are not public, if the
	// policy allows it. Default: none.
	AllowNetworks []netip.Prefix
	// RequestMaxBytes and ResponseMaxBytes limit the bodies of a request, up to 640 KiB, and
	// of a response, up to 11 MiB. Defaults: 512 KiB and 4 MiB.
	RequestMaxBytes  int
	ResponseMaxBytes int
	// HeaderMaxBytes limits the headers of a request, and those of a response. Default: 64
	// KiB, at most 256 KiB.
	HeaderMaxBytes int
	// Timeout limits a request with its redirects. Default: 30 s, at most 5 min.
	Timeout time.Duration
}

// maxFetchHeaderBytes is the largest FetchOptions.HeaderMaxBytes: the arguments of a host
// call have at most 1 MiB.
const maxFetchHeaderBytes = 256 << 10

// validate returns the errors of the fields. It does not read the policy.
func (o FetchOptions) validate() error {
	problems := []error{
		optionRange[int]{least: 1, most: fetcher.MaxRequestBytes, unit: " bytes"}.check("Fetch.RequestMaxBytes", o.RequestMaxBytes),
		optionRange[int]{least: 1, most: fetcher.MaxResponseBytes, unit: " bytes"}.check("Fetch.ResponseMaxBytes", o.ResponseMaxBytes),
		optionRange[int]{least: 1 << 10, most: maxFetchHeaderBytes, unit: " bytes"}.check("Fetch.HeaderMaxBytes", o.HeaderMaxBytes),
		optionRange[time.Duration]{least: 1, most: 5 * time.Minute}.check("Fetch.Timeout", o.Timeout),
	}
	for _, h := range o.Headers {
		problems = append(problems, ofField("Fetch.Headers", h.Check()))
	}
	if o.Policy == "" && (len(o.Headers) > 0 || len(o.AllowNetworks) > 0) {
		problems = append(problems, ofField("Fetch.Policy", errors.New("missing: without a policy, scripts send no requests, and headers and networks have no use")))
	}
	return errors.Join(problems...)
}
