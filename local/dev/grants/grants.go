// Package grants compares the requests of functions to AWS with the grants of their roles. No emulator enforces the
// permissions of a role. The comparison finds missing grants before a function fails in AWS, and grants that no test
// uses.
//
// The package does not simulate IAM. It supports only the statements that the infrastructure uses: Allow, actions by
// name, the conditions in keys.go, and resources with at most a star at the end. It rejects other effects, actions and
// conditions. A resource that it does not know matches no request.
//
// Read grants.go first, then template.go for the roles, and keys.go for key prefixes. Package cloud records the
// requests of functions (docs/decisions/0018-grants-are-compared-with-use.md).
package grants

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

// Grant is an action on a resource: table, table/index/NAME, key,
// bucket, bucket/KEY. In the grants of a role, KEY can end with a star.
type Grant struct{ Action, Resource string }

func (g Grant) String() string { return g.Action + " on " + g.Resource }

// covers reports whether g allows another grant.
func (g Grant) covers(other Grant) bool {
	prefix, star := strings.CutSuffix(g.Resource, "*")
	return g.Action == other.Action && (g.Resource == other.Resource || star && strings.HasPrefix(other.Resource, prefix))
}

// GrantsByFunction contains the grants or the requests of functions, by the function's name.
type GrantsByFunction map[string]map[Grant]bool

func (f GrantsByFunction) add(function string, g Grant) {
	if f[function] == nil {
		f[function] = make(map[Grant]bool)
	}
	f[function][g] = true
}

// Len returns the number of grants or requests of all functions.
func (f GrantsByFunction) Len() int {
	n := 0
	for _, set := range f {
		n += len(set)
	}
	return n
}

// performedByAWS reports whether AWS itself performs an action with a
// function's role, and why. Functions do not request these actions.
func performedByAWS(action string) (reason string, ok bool) {
	switch action {
	case "logs:CreateLogStream", "logs:PutLogEvents":
		return "Lambda writes the function's log", true
	case "xray:PutTelemetryRecords", "xray:PutTraceSegments":
		return "Lambda sends its traces", true
	case "dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams":
		return "the event source mapping reads the stream", true
	case "sqs:SendMessage":
		return "the event source mapping sends what failed for good", true
	}
	return "", false
}

// RareGrant is a necessary grant that a test suite cannot use on demand.
type RareGrant struct {
	Function string
	Grant    Grant
	// Reason describes when the function needs the grant.
	Reason string
}

// usedByFirstCaller reports whether an action is requested only once, by the first function that needs its result.
func usedByFirstCaller(action string) bool { return action == "kms:GenerateDataKeyWithoutPlaintext" }

// ReadUses reads the recorded requests of functions. table and bucket are the names of the installation's table and
// bucket: a request to another table or bucket, or to a service other than DynamoDB, S3 and KMS, is an error.
func ReadUses(record io.Reader, table, bucket string) (GrantsByFunction, error) {
	out := make(GrantsByFunction)
	lines := bufio.NewScanner(record)
	for lines.Scan() {
		var u cloud.Use
		if err := json.Unmarshal(lines.Bytes(), &u); err != nil {
			return nil, fmt.Errorf("decode a use: %w", err)
		}
		resource, err := resourceName(u, table, bucket)
		if err != nil {
			return nil, err
		}
		out.add(u.Function, Grant{u.Action, resource})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the record of uses: %w", err)
	}
	return out, nil
}

// resourceName returns the resource of a use, in the form of Grant.Resource.
func resourceName(u cloud.Use, table, bucket string) (string, error) {
	if rest, ok := strings.CutPrefix(u.Resource, "table/"+table); ok && strings.HasPrefix(u.Action, "dynamodb:") &&
		(rest == "" || rest[0] == '/') {
		return "table" + rest, nil
	}
	if rest, ok := strings.CutPrefix(u.Resource, bucket); ok && strings.HasPrefix(u.Action, "s3:") &&
		(rest == "" || rest[0] == '/') {
		return "bucket" + rest, nil
	}
	if strings.HasPrefix(u.Action, "kms:") {
		return "key", nil
	}
	return "", fmt.Errorf("%s asks for %s on %s, which is none of the installation's resources", u.Function, u.Action,
		u.Resource)
}

// Compare joins the errors of Missing and Unused.
func Compare(granted, used GrantsByFunction, rare ...RareGrant) error {
	return errors.Join(Missing(granted, used), Unused(granted, used, rare...))
}

// Missing returns an error with every use that the function's role does not allow, or nil if there are none.
func Missing(granted, used GrantsByFunction) error {
	var errs []error
	for _, function := range slices.Sorted(maps.Keys(used)) {
		for _, u := range sorted(used[function]) {
			if !slices.ContainsFunc(sorted(granted[function]), func(g Grant) bool { return g.covers(u) }) {
				errs = append(errs, fmt.Errorf("%s asks for %s, which its role does not allow", function, u))
			}
		}
	}
	return errors.Join(errs...)
}

// Unused returns an error with every unused grant, except the grants in rare and those of actions that AWS itself
// performs (performedByAWS). The error also has every grant in rare that no role has. Unused returns nil if there are
// none.
func Unused(granted, used GrantsByFunction, rare ...RareGrant) error {
	var errs []error
	for _, function := range slices.Sorted(maps.Keys(granted)) {
		for _, g := range sorted(granted[function]) {
			if _, ok := performedByAWS(g.Action); ok || slices.ContainsFunc(rare, func(r RareGrant) bool {
				return r.Function == function && r.Grant == g
			}) {
				continue
			}
			users := []map[Grant]bool{used[function]}
			if usedByFirstCaller(g.Action) {
				users = slices.Collect(maps.Values(used))
			}
			if !slices.ContainsFunc(users, func(set map[Grant]bool) bool {
				return slices.ContainsFunc(sorted(set), g.covers)
			}) {
				errs = append(errs, fmt.Errorf("%s may do %s, and never does", function, g))
			}
		}
	}
	for _, r := range rare {
		if !granted[r.Function][r.Grant] {
			errs = append(errs, fmt.Errorf("%s is said to need %s (%s), and may not do it", r.Function, r.Grant, r.Reason))
		}
	}
	return errors.Join(errs...)
}

func sorted(set map[Grant]bool) []Grant {
	return slices.SortedFunc(maps.Keys(set), func(a, b Grant) int { return strings.Compare(a.String(), b.String()) })
}
