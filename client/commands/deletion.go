package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/output"
)

// deletion describes what a command deletes.
type deletion struct {
	// kind is the kind of object in messages, such as bucket.
	kind string
	// dependents are the objects that are deleted together with the object.
	dependents []dependent
}

// dependent describes objects of one kind that are deleted together with another object.
type dependent struct {
	// operation is the operation that lists these objects. It is called with the arguments of the deletion, except
	// those that it does not accept. operation is "" if no operation lists all objects. member is the name of the list
	// in the response; it is "" if the response has a total.
	operation, member string
	singular, plural  string
	// If the objects are in several lists, argument is the argument that selects a list, and values returns its values.
	// values is nil if there is one list. If one of several lists is missing, or if the caller's API key has no
	// permission to read a list, the number of objects is unknown.
	argument string
	values   func(arguments map[string]any) []string
}

// remove deletes an object. Unless yes is true, it first shows what will be deleted, and the user must type the
// object's name as a confirmation.
func (s *session) remove(ctx context.Context, v verb, arguments map[string]any, args []string, yes bool) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	name := args[len(args)-1]
	if !yes && !s.app.prompter().Interactive() { // fail before the first request
		return s.app.prompter().Confirm(ctx, "The "+v.deletes.kind+" "+output.Printable(name)+" would go", name, "--"+yesFlag)
	}
	dependents, err := v.deletes.describeDependents(ctx, api, arguments)
	if err != nil {
		return err
	}
	if !yes {
		if err := s.app.prompter().Confirm(ctx, fmt.Sprintf("The %s %s goes%s", v.deletes.kind, output.Printable(name),
			dependents), name, "--"+yesFlag); err != nil {
			return err
		}
	}
	if _, err := s.callAndWait(ctx, api, v, arguments); err != nil {
		return err
	}
	s.out.Infof("the %s %s is deleted%s", v.deletes.kind, name, dependents)
	return nil
}

// describeDependents returns the end of a message about a deletion, such as ", with 2 plans and 1 subscription". It
// returns "" if d has no dependents.
func (d deletion) describeDependents(ctx context.Context, api *call.API, arguments map[string]any) (string, error) {
	var all []string
	for _, c := range d.dependents {
		if c.operation == "" {
			all = append(all, "all its "+c.plural)
			continue
		}
		n, err := c.count(ctx, api, arguments)
		switch {
		// An API key can have the permission to delete objects without the permission to list them. For one of several
		// lists, the error can also be NotFound.
		case exit.CodeOf(err) == exit.NotAllowed || c.values != nil && exit.CodeOf(err) == exit.NotFound:
			all = append(all, "all its "+c.plural)
		case err != nil:
			return "", err
		case n == 1:
			all = append(all, "1 "+c.singular)
		default:
			all = append(all, fmt.Sprintf("%d %s", n, c.plural))
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	return ", with " + strings.Join(all, " and "), nil
}

// count returns the number of objects in all lists.
func (d dependent) count(ctx context.Context, api *call.API, arguments map[string]any) (sum int64, err error) {
	if d.values == nil {
		return d.countList(ctx, api, arguments)
	}
	for _, value := range d.values(arguments) {
		query := maps.Clone(arguments)
		query[d.argument] = value
		n, err := d.countList(ctx, api, query)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// countList returns the number of objects in one list.
func (d dependent) countList(ctx context.Context, api *call.API, arguments map[string]any) (int64, error) {
	t, err := call.Operation(d.operation)
	if err != nil {
		return 0, err
	}
	query := knownArguments(t, arguments)
	if takesArgument(t, "limit") {
		query["limit"] = 1
	}
	resp, err := api.Call(ctx, d.operation, query)
	if err != nil {
		return 0, err
	}
	if d.member != "" {
		var list []json.RawMessage
		if err := call.Decode(memberValue(resp.Body, d.member), &list); err != nil {
			return 0, fmt.Errorf("count the %s: %w", d.plural, err)
		}
		return int64(len(list)), nil
	}
	var list struct{ Total int64 }
	if err := call.Decode(resp.Body, &list); err != nil {
		return 0, fmt.Errorf("count the %s: %w", d.plural, err)
	}
	return list.Total, nil
}
