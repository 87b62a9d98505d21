package files_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/files"
)

// things are the objects of a kind.
func (f *fake) things(member string) (all []*thing) {
	for _, o := range f.objects {
		if o.kind.Member == member {
			all = append(all, o)
		}
	}
	return all
}

// TestServicesOfATunnelAreThoseOfThePlan: they have operations and an ETag of their own.
func TestServicesOfATunnelAreThoseOfThePlan(t *testing.T) {
	t.Parallel()
	f := newFake(t, "a")
	applied(t, f, before)
	p := compared(t, f, strings.Replace(before, "http://localhost:1", "http://localhost:2", 1), files.Options{})
	others := json.RawMessage(`[{"name":"stock-box","endpoint":"http://localhost:3","configurations":[]}]`)
	f.things("tunnels")[0].apart, f.done = others, nil
	_, err := files.Apply(t.Context(), f, p, applying(f, ""))
	if exit.Of(err) != exit.Conflict || len(f.done) > 0 || string(f.things("tunnels")[0].apart) != string(others) {
		t.Fatalf("it ends with %v, has made %v, and the services are %s", err, f.done, f.things("tunnels")[0].apart)
	}
	for _, text := range []string{"tunnel office", "localhost:1", "localhost:3"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("it does not say %s: %v", text, err)
		}
	}
}

// TestObjectThatChangesWhileItIsComparedIsPlannedAsItIsThen: between the list that has it and the read that tells its ETag somebody does half of what
// the files want. The plan has the other half alone.
func TestObjectThatChangesWhileItIsComparedIsPlannedAsItIsThen(t *testing.T) {
	t.Parallel()
	f := newFake(t, "a")
	applied(t, f, before)
	f.fails = func(_ int, after bool) error {
		if !after && f.asked[len(f.asked)-1] == "ApiKeyConsumersService_read" {
			f.find(f.things("consumers")[0].kind, "/bucketName=partners", "ada").fields["tags"] = json.RawMessage(`{"plan":"gold"}`)
		}
		return nil
	}
	p := compared(t, f, "keyBuckets: [{name: partners, consumers: [{name: ada, description: d, tags: {plan: gold}}]}]", files.Options{})
	if len(p.Changes) != 1 || len(p.Changes[0].Fields) != 1 || p.Changes[0].Fields[0].Name != "description" || string(p.Changes[0].Before["tags"]) != `{"plan":"gold"}` {
		t.Fatalf("the plan is %+v", p.Changes)
	}
	if _, err := files.Apply(t.Context(), f, p, applying(f, "")); err != nil {
		t.Error(err)
	}
}

// ofAnother is an installation that is asked with a key of another account.
type ofAnother struct{ *fake }

func (ofAnother) Account(context.Context) (string, error) { return "another", nil }

func TestPlanIsAppliedToItsAccountAlone(t *testing.T) {
	t.Parallel()
	f := newFake(t, "a")
	p := compared(t, f, before, files.Options{})
	_, err := files.Apply(t.Context(), ofAnother{f}, p, applying(f, ""))
	if exit.Of(err) != exit.Usage || len(f.done) > 0 || !strings.Contains(err.Error(), "demo") || !strings.Contains(err.Error(), "another") {
		t.Errorf("it ends with %v, and has made %v", err, f.done)
	}
}

// TestWhatNamesOthersIsDeletedBeforeThem: the API lets no plan go that a subscription is to.
func TestWhatNamesOthersIsDeletedBeforeThem(t *testing.T) {
	t.Parallel()
	f := newFake(t, "a")
	applied(t, f, strings.NewReplacer("plans: [", `plans: [{planExternalId: old, label: Old, meters: {}}, `, "planExternalIds: [pro]", "planExternalIds: [old]").Replace(whole))
	p := compared(t, f, "meteringBuckets: [{name: sold, complete: [plans, subscriptions], plans: [{planExternalId: pro, label: Pro}]}]", files.Options{Prune: true})
	if len(p.Changes) != 2 || p.Changes[0].Kind != "subscription" || p.Changes[1].Kind != "plan" {
		t.Errorf("the plan is %+v", p.Changes)
	}
}

// slow is an installation that deletes tunnels for a while, and then says how that has ended.
type slow struct {
	*fake
	status string
	asked  int
}

func (s *slow) Named(ctx context.Context, name string, arguments map[string]any) (*call.Answer, error) {
	switch name {
	case "TunnelService_getProvisioningStatus":
		s.asked++
		return ok(map[string]any{"id": "op", "status": s.status, "message": "the relay says no"}), nil
	case "TunnelService_delete":
		if _, err := s.fake.Named(ctx, name, arguments); err != nil {
			return nil, err
		}
		return ok(map[string]any{"id": "op", "status": "in-progress"}), nil
	}
	return s.fake.Named(ctx, name, arguments)
}

// TestDeletionIsAwaited: what comes after it is made once it is done, and one that has failed ends the apply.
func TestDeletionIsAwaited(t *testing.T) {
	t.Parallel()
	for status, says := range map[string]string{"success": "", "error": "the relay says no"} {
		f := newFake(t, "a")
		applied(t, f, "tunnels: [{name: first}, {name: second}]")
		p := compared(t, f, "complete: [tunnels]", files.Options{Prune: true})
		s := &slow{fake: f, status: status}
		done, err := files.Apply(t.Context(), s, p, applying(f, ""))
		if says == "" && (err != nil || done.Made != 2 || s.asked != 2) {
			t.Errorf("%+v are made, and it ends with %v after %d questions", done, err, s.asked)
		}
		if says != "" && (err == nil || !strings.Contains(err.Error(), says) || done.Made != 0 || len(f.things("tunnels")) != 1) {
			t.Errorf("%+v are made, and it ends with %v", done, err)
		}
	}
}

// TestPlanIsDeletedWithItsSubscription: that goes first, and the API then tells of the plan that it has none, by another ETag. What somebody else has
// changed of it ends it all the same.
func TestPlanIsDeletedWithItsSubscription(t *testing.T) {
	t.Parallel()
	const (
		pro   = "meteringBuckets: [{name: a, complete: [plans, subscriptions], plans: [{planExternalId: pro, label: P, meters: {r: {label: R, max: 1}}}"
		gold  = ", {planExternalId: gold, label: P, meters: {r: {label: R, max: 1}}}]"
		one   = ", subscriptions: [{subscriptionExternalId: s, customerExternalId: c, customerKey: k, planExternalIds: [gold], region: us-east1, renewalStrategy: monthly, status: active, type: periodic}]}]"
		moved = ", subscriptions: [{subscriptionExternalId: s, planExternalIds: [pro]}]}]"
		none  = "]}]"
	)
	first := newProduct(t)
	plan := func(p *product, text string) *files.Plan {
		t.Helper()
		made, err := p.compared(written(t, text), true)
		if err != nil {
			t.Fatal(told(err))
		}
		return made
	}
	if err := first.applied(plan(first, pro+gold+one), ""); err != nil {
		t.Fatal(err)
	}
	for name, after := range map[string]string{"with it": pro + none, "and it has another": pro + "]" + moved} {
		for _, changes := range []bool{false, true} {
			p := first.copied(t)
			made := plan(p, after)
			if changes {
				c := made.Changes[len(made.Changes)-1]
				p.ask("MeteringPlansService_update", map[string]any{"bucketId": text(c.Arguments["bucketId"]), "planId": c.ID, "label": "Q"})
			}
			err := p.applied(made, "")
			if want := map[bool]exit.Code{false: exit.OK, true: exit.Conflict}[changes]; exit.Of(err) != want || changes && !strings.Contains(err.Error(), `label was "P", and is "Q"`) {
				t.Errorf("%s, and somebody changes it %v: it ends with %v", name, changes, err)
			}
			if more := plan(p, after); !changes && len(more.Changes) > 0 {
				t.Errorf("%s: there is more to do: %v", name, lines(more))
			}
		}
	}
}
