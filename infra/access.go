package main

import (
	"fmt"
	"slices"

	"github.com/gatewright/gatewright/shared/core/store"
)

// These are DynamoDB's actions on items, by kind of access. IAM knows the partition keys of a call
// (dynamodb:LeadingKeys), also of each part of a transaction or a batch. See "Using IAM policy conditions for
// fine-grained access control" in the developer guide of DynamoDB, and the table of actions in the Service
// Authorization Reference. Only a Scan has none, so a function that declares a scan can read the whole table. The due
// index (targetDueIndex) has a separate statement without a condition, because it contains only keys of records.
var (
	scanActions  = []any{"dynamodb:Scan"}
	readActions  = []any{"dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"}
	writeActions = []any{"dynamodb:ConditionCheckItem", "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}
)

// tableStatements returns statements that allow actions on items with the key prefixes in access, and Scan on all items
// if access declares a scan. The condition ForAllValues is also true for a request without a partition key, but each of
// these actions has one. tableStatements panics if access does not cover an action.
func tableStatements(actions []any, access store.TableAccess, table any) []any {
	var out []any
	remaining := slices.Clone(actions)
	for _, kind := range []struct {
		actions  []any
		prefixes []store.KeyPrefix
	}{{readActions, access.Reads}, {writeActions, access.Writes}} {
		matching := slices.DeleteFunc(slices.Clone(actions), func(a any) bool { return !slices.Contains(kind.actions, a) })
		remaining = slices.DeleteFunc(remaining, func(a any) bool { return slices.Contains(kind.actions, a) })
		if len(matching) == 0 {
			continue
		}
		patterns := make([]any, 0, 2*len(kind.prefixes))
		for _, prefix := range slices.Sorted(slices.Values(kind.prefixes)) {
			for _, p := range prefix.LeadingKeyPatterns() {
				patterns = append(patterns, p)
			}
		}
		if len(patterns) == 0 {
			panic(fmt.Sprintf("infra: %v have no key prefixes: list the prefixes in TableAccess", matching))
		}
		statement := allow(matching, table)
		statement["Condition"] = map[string]any{"ForAllValues:StringLike": map[string]any{"dynamodb:LeadingKeys": patterns}}
		out = append(out, statement)
	}
	if slices.Equal(remaining, scanActions) && access.Scans {
		return append(out, allow(remaining, table))
	}
	if len(remaining) > 0 {
		panic(fmt.Sprintf("infra: the access to the table does not cover %v: declare Scans in TableAccess, or add the "+
			"actions to readActions or writeActions", remaining))
	}
	return out
}
