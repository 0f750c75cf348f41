package httpapi

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// optional is a query or header parameter that may be absent, which huma's own
// plain types cannot tell from zero.
type optional[T any] struct {
	Value T
	Set   bool
}

// Schema is that of the value.
func (o optional[T]) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeOf(o.Value))
}

// Receiver is where huma parses the value into.
func (o *optional[T]) Receiver() reflect.Value { return reflect.ValueOf(o).Elem().Field(0) }

// OnParamSet learns whether the parameter was given.
func (o *optional[T]) OnParamSet(set bool, _ any) { o.Set = set }

// or returns the value, or a default.
func (o optional[T]) or(def T) T {
	if o.Set {
		return o.Value
	}
	return def
}
