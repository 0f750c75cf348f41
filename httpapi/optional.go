package httpapi

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// optional is a query or header parameter that may be absent. The plain types of huma
// do not distinguish an absent parameter from a zero one.
type optional[T any] struct {
	Value T
	Set   bool
}

// Schema returns the schema of the value.
func (o optional[T]) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeOf(o.Value))
}

// Receiver returns the field that huma sets.
func (o *optional[T]) Receiver() reflect.Value { return reflect.ValueOf(o).Elem().Field(0) }

// OnParamSet records whether the request has the parameter.
func (o *optional[T]) OnParamSet(set bool, _ any) { o.Set = set }

// or returns the value if it is set, and def otherwise.
func (o optional[T]) or(def T) T {
	if o.Set {
		return o.Value
	}
	return def
}
