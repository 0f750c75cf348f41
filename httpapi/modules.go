package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/web/access"
)

// Modules admits, lists and removes the packages that scripts can import.
type Modules interface {
	// Admit fetches a package and its dependencies from the registry of the server. The error
	// is a *ModuleError if the package is refused.
	Admit(ctx context.Context, tenant, specifier string, actor events.Actor) (*events.ModuleAdmitted, uint64, error)
	Modules(ctx context.Context, tenant string) (list []events.AdmittedPackage, last uint64, err error)
	RemoveModule(ctx context.Context, tenant, id string, actor events.Actor) (removed []string, seq uint64, err error)
}

// ModuleError is why a package is not admitted.
type ModuleError struct{ Err error }

func (e *ModuleError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ModuleError) Unwrap() error { return e.Err }

func (a *api) moduleRoutes(r *router) {
	const path = "/api/modules"
	op := func(id, method, summary, description string) huma.Operation {
		o := huma.Operation{OperationID: id, Method: method, Path: path, Tags: []string{tagExecutions}, Summary: summary, Description: description}
		if method != http.MethodGet {
			o.Metadata = map[string]any{scopeKey: access.Admin}
		}
		return o
	}
	register(r, op("list-modules", http.MethodGet, "List the packages that scripts can import", "Sorted by name and version, with the dependencies that were chosen when they were admitted."),
		nil, a.listModules)
	add := op("admit-module", http.MethodPost, "Admit a package that scripts can import",
		"Fetches a package and its dependencies from the registry of the server (--registry), checks their SHA-512, stores them, and records the admission. Versions are chosen once, here. No script of a package is executed.")
	add.DefaultStatus = http.StatusCreated
	add.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": mediaOf[moduleBody](r)}}
	register(r, add, []int{http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}, a.admitModule)
	delete(add.RequestBody.Content, "application/octet-stream")
	register(r, op("remove-module", http.MethodDelete, "Remove a package",
		"The package, and dependencies that nothing else needs, can no longer be imported. Heaps that evaluated them keep them, and recorded runs can be replayed."),
		[]int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict}, a.removeModule)
}

// moduleBody documents the request body; admitModule decodes it.
type moduleBody struct {
	Specifier string `json:"specifier" doc:"Package to admit: NAME, NAME@RANGE or NAME@TAG, with or without npm:, or jsr:@SCOPE/NAME." example:"zod@^4"`
}

type admitModuleInput struct{ RawBody []byte }

type moduleList struct {
	Modules []events.AdmittedPackage `json:"modules" doc:"The packages."`
}

type modulesAnswer struct{ Body moduleList }

type admittedAnswer struct {
	Written
	Body moduleList
}

// modulesService returns the service, or a failure if the server has none.
func (a *api) modulesService() (Modules, *failure) {
	if a.modules == nil {
		return nil, absent("this server runs no scripts, and admits no packages")
	}
	return a.modules, nil
}

type listModulesInput struct{ Reading }

func (a *api) listModules(ctx context.Context, in *listModulesInput) (*modulesAnswer, error) {
	m, f := a.modulesService()
	if f != nil {
		return nil, f
	}
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	list, _, err := m.Modules(ctx, requestOf(ctx).tenant)
	if err != nil {
		return nil, err
	}
	if list == nil {
		list = []events.AdmittedPackage{}
	}
	return &modulesAnswer{moduleList{list}}, nil
}

func (a *api) admitModule(ctx context.Context, in *admitModuleInput) (*admittedAnswer, error) {
	m, f := a.modulesService()
	if f != nil {
		return nil, f
	}
	r := requestOf(ctx)
	if f := requireJSON(r, in.RawBody, `curl -X POST -H 'Content-Type: application/json' --data '{"specifier":"zod@4"}' ...`); f != nil {
		return nil, f
	}
	var specifier string
	given := false
	if f := decodeObject(in.RawBody, map[string]member{"specifier": text(&specifier, &given)}); f != nil {
		return nil, f
	}
	if !given {
		return nil, invalid("specifier", "specifier is missing: give the package to admit, such as zod@^4")
	}
	d, seq, err := m.Admit(ctx, r.tenant, specifier, r.actor)
	if refused, ok := errors.AsType[*ModuleError](err); ok {
		return nil, invalid("specifier", "%s", refused)
	}
	if err != nil {
		return nil, err
	}
	return &admittedAnswer{Written: a.noteWrite(seq), Body: moduleList{d.Packages}}, nil
}

type removeModuleInput struct {
	Package string `query:"package" required:"true" doc:"NAME@VERSION of the package to remove." example:"zod@4.1.0"`
}

type removedAnswer struct {
	Written
	Body removedModules
}

type removedModules struct {
	Removed []string `json:"removed" doc:"NAME@VERSION of the package, then of dependencies that nothing else needs."`
}

func (a *api) removeModule(ctx context.Context, in *removeModuleInput) (*removedAnswer, error) {
	m, f := a.modulesService()
	if f != nil {
		return nil, f
	}
	r := requestOf(ctx)
	removed, seq, err := m.RemoveModule(ctx, r.tenant, in.Package, r.actor)
	if err != nil {
		return nil, err
	}
	return &removedAnswer{Written: a.noteWrite(seq), Body: removedModules{removed}}, nil
}
