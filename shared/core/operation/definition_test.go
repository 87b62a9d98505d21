package operation_test

import (
	"context"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/operation/operationtest"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

func nothing(context.Context, operation.Step) (operation.Result, error) {
	return operation.Result{}, nil
}

func TestInvalidDefinitionIsRefused(t *testing.T) {
	type states = map[string]operation.State
	tests := []struct {
		name string
		in   []operation.Definition
		want string // a part of the error, "" if there must be none
	}{
		{"one state", []operation.Definition{{Kind: "k", First: "a", States: states{
			"a": {Task: nothing, Next: operation.Succeed},
		}}}, ""},
		{"a loop with an end", []operation.Definition{{Kind: "k", First: "a", States: states{
			"a": {Task: nothing, Next: "b"},
			"b": {Task: nothing, Next: "a", Alternatives: []string{operation.Succeed}},
		}}}, ""},
		{"a state that only a failure leads to", []operation.Definition{{Kind: "k", First: "a", States: states{
			"a": {Task: nothing, Next: operation.Succeed, Catch: "b"},
			"b": {Task: nothing, Next: operation.Fail},
		}}}, ""},
		{"no kind", []operation.Definition{{First: "a", States: states{
			"a": {Task: nothing, Next: operation.Succeed},
		}}}, "no name"},
		{"no first state", []operation.Definition{{Kind: "k", First: "z", States: states{
			"a": {Task: nothing, Next: operation.Succeed},
		}}}, `first state "z" is not defined`},
		{"no task", []operation.Definition{{Kind: "k", First: "a", States: states{
			"a": {Next: operation.Succeed},
		}}}, `state "a" has no task`},
		{"a state named like an end", []operation.Definition{{Kind: "k", First: "error", States: states{
			"error": {Task: nothing, Next: operation.Succeed},
		}}}, `may not be named "error"`},
		{"an unknown next state", []operation.Definition{{Kind: "k", First: "a", States: states{
			"a": {Task: nothing, Next: "b"},
		}}}, `leads to "b", which is not defined`},
		{"no next state", []operation.Definition{{Kind: "k", First: "a", States: states{
			"a": {Task: nothing},
		}}}, `leads to "", which is not defined`},
		{"an unknown alternative", []operation.Definition{{Kind: "k", First: "a", States: states{
			"a": {Task: nothing, Next: operation.Succeed, Alternatives: []string{"b"}},
		}}}, `leads to "b"`},
		{"an unknown catch", []operation.Definition{{Kind: "k", First: "a", States: states{
			"a": {Task: nothing, Next: operation.Succeed, Catch: "b"},
		}}}, `leads to "b"`},
		{"an unreachable state", []operation.Definition{{Kind: "k", First: "a", States: states{
			"a": {Task: nothing, Next: operation.Succeed},
			"b": {Task: nothing, Next: operation.Succeed},
		}}}, `nothing leads to state "b"`},
		{"a loop without an end", []operation.Definition{{Kind: "k", First: "a", States: states{
			"a": {Task: nothing, Next: "b"},
			"b": {Task: nothing, Next: "a"},
		}}}, `state "a" leads to no end`},
		{"a state that catches itself", []operation.Definition{{Kind: "k", First: "a", States: states{
			"a": {Task: nothing, Next: operation.Succeed, Catch: "a"},
		}}}, `state "a" catches itself`},
		{"two states that catch each other", []operation.Definition{{Kind: "k", First: "a", States: states{
			"a": {Task: nothing, Next: operation.Succeed, Catch: "b"},
			"b": {Task: nothing, Next: operation.Succeed, Catch: "a"},
		}}}, `state "b" catches itself`},
		{"a negative limit", []operation.Definition{{Kind: "k", First: "a", States: states{
			"a": {Task: nothing, Next: operation.Succeed, Timeout: -1},
		}}}, "negative bound"},
		{"a kind defined twice", []operation.Definition{
			{Kind: "k", First: "a", States: states{"a": {Task: nothing, Next: operation.Succeed}}},
			{Kind: "k", First: "a", States: states{"a": {Task: nothing, Next: operation.Succeed}}},
		}, "defined twice"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := operation.New(nil, test.in, operation.Options{})
			switch {
			case test.want == "" && err != nil:
				t.Errorf("New() = %v, want success", err)
			case test.want != "" && err == nil:
				t.Errorf("New() succeeds, want the error %q", test.want)
			case test.want != "" && !strings.Contains(err.Error(), test.want):
				t.Errorf("New() = %q, want %q in the error", err, test.want)
			}
		})
	}
}

func TestDefinitionString(t *testing.T) {
	golden.Equal(t, "testdata/order.md", orderDefinitions(&operationtest.Worker{}, nil)[0].String())
}
