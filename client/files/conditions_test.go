package files_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/files"
)

// objectsOf returns the objects of a kind.
func (f *fakeAPI) objectsOf(member string) (all []*fakeObject) {
	for _, o := range f.objects {
		if o.kind.Member == member {
			all = append(all, o)
		}
	}
	return all
}

// TestChangedTunnelServicesStopApply changes the services of a tunnel after the plan was made. Apply must not overwrite
// them. Services have operations and an ETag of their own.
func TestChangedTunnelServicesStopApply(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, "a")
	mustApply(t, f, beforeYAML)
	p := mustCompare(t, f, strings.Replace(beforeYAML, "http://localhost:1", "http://localhost:2", 1), files.Options{})
	others := json.RawMessage(`[{"name":"stock-box","endpoint":"http://localhost:3","configurations":[]}]`)
	f.objectsOf("tunnels")[0].separate, f.changes = others, nil
	_, err := files.Apply(t.Context(), f, p, applyOptions(f, ""))
	if exit.CodeOf(err) != exit.Conflict || len(f.changes) > 0 ||
		string(f.objectsOf("tunnels")[0].separate) != string(others) {
		t.Fatalf("Apply() error = %v after the changes %v, services = %s, want code %d after none, and %s",
			err, f.changes, f.objectsOf("tunnels")[0].separate, exit.Conflict, others)
	}
	for _, text := range []string{"tunnel office", "localhost:1", "localhost:3"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("Apply() error = %v, want %s in it", err, text)
		}
	}
}

// TestCompareUsesObjectReadLast makes one of two planned changes after the list was read and before the read that
// returns the ETag. The plan must only have the other change.
func TestCompareUsesObjectReadLast(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, "a")
	mustApply(t, f, beforeYAML)
	f.onCall = func(_ int, after bool) error {
		if !after && f.calls[len(f.calls)-1] == "ApiKeyConsumersService_read" {
			f.find(f.objectsOf("consumers")[0].kind, "/bucketName=partners",
				"ada").fields["tags"] = json.RawMessage(`{"plan":"gold"}`)
		}
		return nil
	}
	p := mustCompare(t, f, "keyBuckets: [{name: partners, consumers: [{name: ada, description: d, tags: {plan: gold}}]}]",
		files.Options{})
	if len(p.Changes) != 1 || len(p.Changes[0].Fields) != 1 || p.Changes[0].Fields[0].Name != "description" ||
		string(p.Changes[0].Before["tags"]) != `{"plan":"gold"}` {
		t.Fatalf("Compare() = %+v, want one change of the description, with the tags that were read last", p.Changes)
	}
	if _, err := files.Apply(t.Context(), f, p, applyOptions(f, "")); err != nil {
		t.Errorf("Apply() of the change of the description: error = %v, want none", err)
	}
}

// otherAccountAPI is an API client whose key belongs to another account.
type otherAccountAPI struct{ *fakeAPI }

func (otherAccountAPI) Account(context.Context) (string, error) { return "another", nil }

func TestPlanOfOtherAccountIsRefused(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, "a")
	p := mustCompare(t, f, beforeYAML, files.Options{})
	_, err := files.Apply(t.Context(), otherAccountAPI{f}, p, applyOptions(f, ""))
	if exit.CodeOf(err) != exit.Usage || len(f.changes) > 0 || !strings.Contains(err.Error(), "demo") ||
		!strings.Contains(err.Error(), "another") {
		t.Errorf("Apply() to another account: error = %v after the changes %v, want code %d and both accounts after none",
			err, f.changes, exit.Usage)
	}
}

// TestSubscriptionIsDeletedBeforePlan checks the order of changes: the API refuses to delete a plan that has a
// subscription.
func TestSubscriptionIsDeletedBeforePlan(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, "a")
	mustApply(t, f, strings.NewReplacer("plans: [", `plans: [{planExternalId: old, label: Old, meters: {}}, `,
		"planExternalIds: [pro]", "planExternalIds: [old]").Replace(fullYAML))
	p := mustCompare(t, f, "meteringBuckets: [{name: sold, complete: [plans, subscriptions], plans: [{planExternalId: "+
		"pro, label: Pro}]}]", files.Options{Prune: true})
	var got []string
	for _, c := range p.Changes {
		got = append(got, fmt.Sprint(c.Action, " ", c.Kind))
	}
	want := []string{fmt.Sprint(files.Delete, " subscription"), fmt.Sprint(files.Delete, " plan")}
	if !slices.Equal(got, want) {
		t.Errorf("changes of Compare() = %q, want %q", got, want)
	}
}

// slowAPI is an installation that deletes tunnels in the background. The first poll returns the result of the deletion.
type slowAPI struct {
	*fakeAPI
	status string
	polls  int
}

func (s *slowAPI) Call(ctx context.Context, name string, arguments map[string]any) (*call.Response, error) {
	switch name {
	case "TunnelService_getProvisioningStatus":
		s.polls++
		return ok(map[string]any{"id": "op", "status": s.status, "message": "the relay says no"}), nil
	case "TunnelService_delete":
		if _, err := s.fakeAPI.Call(ctx, name, arguments); err != nil {
			return nil, err
		}
		return ok(map[string]any{"id": "op", "status": "in-progress"}), nil
	}
	return s.fakeAPI.Call(ctx, name, arguments)
}

// TestApplyWaitsForDeletion checks that Apply polls each deletion until it has ended, and that Apply stops after a
// failed deletion.
func TestApplyWaitsForDeletion(t *testing.T) {
	t.Parallel()
	for status, wantErr := range map[string]string{"success": "", "error": "the relay says no"} {
		f := newFakeAPI(t, "a")
		mustApply(t, f, "tunnels: [{name: first}, {name: second}]")
		p := mustCompare(t, f, "complete: [tunnels]", files.Options{Prune: true})
		s := &slowAPI{fakeAPI: f, status: status}
		result, err := files.Apply(t.Context(), s, p, applyOptions(f, ""))
		if wantErr == "" && (err != nil || result.Applied != 2 || s.polls != 2) {
			t.Errorf("Apply() of slow deletions = %+v, %v after %d polls, want 2 applied after 2", result, err, s.polls)
		}
		if wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr) || result.Applied != 0 ||
			len(f.objectsOf("tunnels")) != 1) {
			t.Errorf("Apply() of a failing deletion = %+v, %v with %d tunnels left, want 0 applied, %q, and 1 left",
				result, err, len(f.objectsOf("tunnels")), wantErr)
		}
	}
}

// TestMeteringPlanIsDeletedAfterSubscription deletes a metering plan after its subscription was deleted or got another
// plan. This changes the ETag of the metering plan, but must not stop the apply. Any other change of the metering plan
// must stop it.
func TestMeteringPlanIsDeletedAfterSubscription(t *testing.T) {
	t.Parallel()
	const (
		pro = "meteringBuckets: [{name: a, complete: [plans, subscriptions], plans: [{planExternalId: pro, " +
			"label: P, meters: {r: {label: R, max: 1}}}"
		gold         = ", {planExternalId: gold, label: P, meters: {r: {label: R, max: 1}}}]"
		subscription = ", subscriptions: [{subscriptionExternalId: s, customerExternalId: c, customerKey: k, " +
			"planExternalIds: [gold], region: us-east1, renewalStrategy: monthly, status: active, type: periodic}]}]"
		movedSubscription = ", subscriptions: [{subscriptionExternalId: s, planExternalIds: [pro]}]}]"
		closing           = "]}]"
	)
	first := newProduct(t)
	plan := func(p *testProduct, text string) *files.Plan {
		t.Helper()
		planned, err := p.compare(writeTemp(t, text), true)
		if err != nil {
			t.Fatal(errorText(err))
		}
		return planned
	}
	if err := first.apply(plan(first, pro+gold+subscription), ""); err != nil {
		t.Fatal(err)
	}
	for name, after := range map[string]string{
		"subscription deleted":           pro + closing,
		"subscription with another plan": pro + "]" + movedSubscription,
	} {
		for _, modified := range []bool{false, true} {
			p := first.clone(t)
			planned := plan(p, after)
			if modified {
				c := planned.Changes[len(planned.Changes)-1]
				p.call("MeteringPlansService_update", map[string]any{
					"bucketId": stringOf(c.Arguments["bucketId"]), "planId": c.ID,
					"label": "Q",
				})
			}
			err := p.apply(planned, "")
			if want := map[bool]exit.Code{false: exit.OK, true: exit.Conflict}[modified]; exit.CodeOf(err) != want ||
				modified && !strings.Contains(err.Error(), `label was "P", and is "Q"`) {
				t.Errorf("%s, label of the plan changed by another client: %t: Apply() error = %v, want code %d",
					name, modified, err, want)
			}
			if next := plan(p, after); !modified && len(next.Changes) > 0 {
				t.Errorf("%s: Compare() after Apply() = %v, want no change", name, planLines(next))
			}
		}
	}
}
