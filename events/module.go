package events

// ModuleAdmitted records that an administrator admitted a package of a registry, and the
// packages that it depends on: from then on, scripts of the tenant can import them. The
// admitted packages of a tenant are its lock: versions are chosen once, here.
//
// Appended when an administrator admits a package, after all tarballs are stored.
type ModuleAdmitted struct {
	// Specifier is what was asked for, such as npm:zod@^4.
	Specifier string `json:"specifier"`
	// Registry is the address of the registry that the packages came from.
	Registry string `json:"registry"`
	// Packages are the packages that were not admitted before, or that are now asked for by
	// name.
	Packages []AdmittedPackage `json:"packages"`
	// Actor admitted them.
	Actor Actor `json:"actor"`
}

// AdmittedPackage is one version of a package.
type AdmittedPackage struct {
	// Name and Version are those of the registry. A JSR package has its name at the npm
	// registry of JSR.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Direct is true if the package was asked for, and false if it is only a dependency.
	Direct bool `json:"direct,omitempty"`
	// SHA512 is the hash of the tarball, 128 lowercase hex characters. It equals the
	// integrity that the registry stated.
	SHA512 string `json:"sha512"`
	// Tarball is the stored tarball.
	Tarball BlobRef `json:"tarball"`
	// Unpacked is the size of all files in bytes, Files their number.
	Unpacked int64 `json:"unpacked"`
	Files    int   `json:"files"`
	// License is what the package states.
	License string `json:"license,omitempty"`
	// Dependencies are the chosen versions of its dependencies, by name.
	Dependencies []ModuleDependency `json:"dependencies,omitempty"`
}

// ModuleDependency is the chosen version of a dependency.
type ModuleDependency struct {
	// Name is the name under which the package imports it.
	Name string `json:"name"`
	// Package is NAME@VERSION of an admitted package.
	Package string `json:"package"`
}

// ID returns NAME@VERSION.
func (p *AdmittedPackage) ID() string { return p.Name + "@" + p.Version }

// ModuleRemoved records that packages are no longer admitted. Heaps that evaluated them keep
// them, and runs that used them can be replayed.
//
// Appended when an administrator removes a package.
type ModuleRemoved struct {
	// Packages are NAME@VERSION of the removed packages: the one that was named, and
	// dependencies that nothing else needs.
	Packages []string `json:"packages"`
	// Actor removed them.
	Actor Actor `json:"actor"`
}

// lockID is what the changes of the admitted packages of a tenant are about.
const lockID = "lock"

// ExecutionModulesLoaded records which packages the script of an execution imports. A later
// attempt and a replay get the same bundle.
//
// Appended by the runner before the script gets the bundle, with the last position on the
// control subject of the execution as the expected position.
type ExecutionModulesLoaded struct {
	// ExecutionID is the id of the execution.
	ExecutionID string `json:"execution_id"`
	// Attempt is the attempt that asked for them.
	Attempt int `json:"attempt"`
	// BundleSHA256 is the hash of the bundle; empty with an error. It is a keyed hash if the
	// content is encrypted.
	BundleSHA256 string `json:"bundle_sha256,omitempty"`
	// Content holds what was imported.
	Content Content[ModulesContent] `json:"content"`
}

// ModulesContent is the erasable part of ExecutionModulesLoaded.
type ModulesContent struct {
	// Specifiers are the imported specifiers, sorted.
	Specifiers []string `json:"specifiers"`
	// Packages are the packages in the bundle with their dependencies.
	Packages []LoadedPackage `json:"packages,omitempty"`
	// Bundle is the code that the script got; nil with an error.
	Bundle *Body `json:"bundle,omitempty"`
	// Error is why there is no bundle, as the script was told.
	Error string `json:"error,omitempty"`
}

// LoadedPackage is a package that a bundle was made of.
type LoadedPackage struct {
	// Name and Version name it.
	Name    string `json:"name"`
	Version string `json:"version"`
	// SHA512 is the hash of its tarball.
	SHA512 string `json:"sha512"`
}
