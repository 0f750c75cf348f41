package jetstream_test

import (
	"errors"

	"daybook/internal/resources/budget"
)

var errEnough = errors.New("enough")

func newBudget() *budget.Budget {
	return budget.New(budget.Options{Answers: 64 << 20, Runs: 1, Cache: 1, Patience: 1})
}
