// Package registrytest serves packages like an npm registry, for tests.
package registrytest

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"daybook/internal/modules/tarballtest"
)

// Server is a registry.
type Server struct {
	*httptest.Server

	mu       sync.Mutex // guards the field below
	versions map[string]map[string]map[string]any
	tarballs map[string][]byte
	requests int
}

// New starts a registry. The caller MUST close it.
func New() *Server {
	s := &Server{versions: map[string]map[string]map[string]any{}, tarballs: map[string][]byte{}}
	s.Server = httptest.NewServer(s)
	return s
}

// Add adds a version of a package with its dependencies and files. A package.json is made if
// there is none.
func (s *Server) Add(name, version string, dependencies, files map[string]string) {
	if files["package.json"] == "" {
		manifest, err := json.Marshal(map[string]any{"name": name, "version": version, "license": "MIT", "dependencies": dependencies})
		if err != nil {
			panic(err)
		}
		files["package.json"] = string(manifest)
	}
	s.AddTarball(name, version, dependencies, tarballtest.Pack(files), "")
}

// AddTarball adds a version with a tarball. Without integrity, it is that of the tarball.
func (s *Server) AddTarball(name, version string, dependencies map[string]string, packed []byte, integrity string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if integrity == "" {
		sum := sha512.Sum512(packed)
		integrity = "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
	}
	path := fmt.Sprintf("/%s/-/%s.tgz", name, version)
	s.tarballs[path] = packed
	if s.versions[name] == nil {
		s.versions[name] = map[string]map[string]any{}
	}
	s.versions[name][version] = map[string]any{
		"name": name, "version": version, "dependencies": dependencies, "dist": map[string]string{"integrity": integrity, "tarball": s.URL + path},
	}
}

// Requests returns the number of requests.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if packed, ok := s.tarballs[r.URL.Path]; ok {
		_, _ = w.Write(packed)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	versions, ok := s.versions[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "versions": versions})
}
