package main

import (
	"fmt"
	"slices"

	"github.com/gatewright/gatewright/shared/store"
)

// Actions on items, by what a reach says of them. IAM knows the partition of each (dynamodb:LeadingKeys), also of those that
// are parts of a transaction or of a batch ("Using IAM policy conditions for fine-grained access control" in the developer guide of
// DynamoDB, and the table of actions in the Service Authorization Reference). It knows none of a Scan, which is allowed whole, to who declares
// that it scans, or not at all. An index has a statement of its own without a condition: of an item it has keys alone, and those
// are of records that have something due.
var (
	scanActions  = []any{"dynamodb:Scan"}
	readActions  = []any{"dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"}
	writeActions = []any{"dynamodb:ConditionCheckItem", "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}
)

// within allows actions on items of the spaces that a reach has, and what reads all of them where it says so. ForAllValues is true where a request names no partition: each of
// these actions names one.
func within(actions []any, reach store.Reach, table any) []any {
	var out []any
	rest := slices.Clone(actions)
	for _, part := range []struct {
		actions []any
		spaces  []store.Space
	}{{readActions, reach.Reads}, {writeActions, reach.Writes}} {
		of := slices.DeleteFunc(slices.Clone(actions), func(a any) bool { return !slices.Contains(part.actions, a) })
		rest = slices.DeleteFunc(rest, func(a any) bool { return slices.Contains(part.actions, a) })
		if len(of) == 0 {
			continue
		}
		patterns := make([]any, 0, 2*len(part.spaces))
		for _, space := range slices.Sorted(slices.Values(part.spaces)) {
			for _, p := range space.Leading() {
				patterns = append(patterns, p)
			}
		}
		if len(patterns) == 0 {
			panic(fmt.Sprintf("infra: %v are declared, and no space of the table that they reach: list them in Reach", of))
		}
		statement := allow(of, table)
		statement["Condition"] = map[string]any{"ForAllValues:StringLike": map[string]any{"dynamodb:LeadingKeys": patterns}}
		out = append(out, statement)
	}
	if slices.Equal(rest, scanActions) && reach.Scans {
		return append(out, allow(rest, table))
	}
	if len(rest) > 0 {
		panic(fmt.Sprintf("infra: %v are granted on the table, of which no reach says that they may be: declare Scans, or teach within what they are", rest))
	}
	return out
}
