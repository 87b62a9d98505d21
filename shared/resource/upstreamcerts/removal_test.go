package upstreamcerts_test

import (
	"fmt"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/fault/faulttest"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/upstreamcerts"
)

// TestRemovalLeavesNoCertificates removes the maximum number of
// certificates, and checks that no certificate can be created meanwhile.
func TestRemovalLeavesNoCertificates(t *testing.T) {
	fx := newFixture(t)
	n := fx.newUpload("one", environment.Production)
	for i := range upstreamcerts.MaxCertificates {
		n.Name = fmt.Sprint("c", i)
		if _, err := fx.Create(fx.request(), visibleProject(), n); err != nil {
			t.Fatal(err)
		}
	}
	if err := fx.table.Commit(t.Context(), store.Update(store.ProjectKey(accountID, project),
		store.Set(store.At("deletedOn"), "now"))); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		var writes []store.Write
		var err error
		if writes, more, err = fx.Removal(t.Context(), accountID, project); err != nil {
			t.Fatal(err)
		}
		if err := fx.table.Commit(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
		_, err = fx.Create(fx.request(), visibleProject(), n)
		faulttest.Check(t, err, fault.NotFound, "project")
	}
	if _, err := fx.List(t.Context(), visibleProject()); !fault.Is(err, fault.NotFound) {
		t.Errorf("List(deleted project) error = %v, want %v", err, fault.NotFound)
	}
	for key := range fx.items.Items() {
		if key != store.ProjectKey(accountID, project) && !audit.IsRecord(key) {
			t.Errorf("item %v remains, want none", key)
		}
	}
}
