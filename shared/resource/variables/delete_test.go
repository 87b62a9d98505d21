package variables_test

import (
	"fmt"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/fault/faulttest"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/variables"
)

func TestListIsSortedAndHidesSecrets(t *testing.T) {
	fx := newFixture(t)
	fx.create("main", variables.NewVariable{Name: "B", IsSecret: true, Value: "s3cret"})
	fx.create("main", variables.NewVariable{Name: "A", Value: "1"})
	fx.create("other", variables.NewVariable{Name: "C", Value: "2"})
	got, err := fx.List(fx.request(), branchRef("main"))
	want := []variables.Variable{
		{Name: "A", Branch: "main", Value: "1", CreatedOn: fx.now, UpdatedOn: fx.now},
		{Name: "B", Branch: "main", IsSecret: true, CreatedOn: fx.now, UpdatedOn: fx.now},
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("List() = %+v, %v, want %+v", got, err, want)
	}
	for _, v := range want {
		if one, err := fx.Read(fx.request(), branchRef("main"), v.Name); err != nil || one != v {
			t.Errorf("Read(%s) = %+v, %v, want %+v", v.Name, one, err, v)
		}
	}
}

func TestDeletedVariableFreesNameAndCapacity(t *testing.T) {
	fx := newFixture(t)
	for i := range variables.MaxVariables {
		fx.create("main", variables.NewVariable{Name: fmt.Sprint("V_", i), Value: "1"})
	}
	for range 3 { // a second deletion of the variable fails, and frees no capacity
		if err := fx.Delete(fx.request(), branchRef("main"), "V_0"); err != nil {
			t.Fatal(err)
		}
		faulttest.Check(t, fx.Delete(fx.request(), branchRef("main"), "V_0"), fault.NotFound, "variable")
		fx.create("main", variables.NewVariable{Name: "V_0", Value: "2"})
		_, err := fx.Create(fx.request(), branchRef("main"), variables.NewVariable{Name: "ONE_MORE"})
		faulttest.Check(t, err, fault.Invalid, "100 variables")
	}
	if got := fx.resolve("main"); got["V_0"] != "2" || len(got) != variables.MaxVariables {
		t.Errorf("Resolve(main) = %d variables with V_0 = %q, want %d with 2", len(got), got["V_0"], variables.MaxVariables)
	}
}

// TestDeletedProjectRefusesVariables checks that variables of a project that is being deleted can neither be
// created nor listed. The deletion would miss variables that are created after it has read the variables.
func TestDeletedProjectRefusesVariables(t *testing.T) {
	fx := newFixture(t)
	if err := fx.table.Commit(t.Context(), store.Put(store.ProjectKey(accountID, project),
		map[string]any{"deletedOn": fx.now})); err != nil {
		t.Fatal(err)
	}
	_, err := fx.Create(fx.request(), branchRef("main"), variables.NewVariable{Name: "A"})
	faulttest.Check(t, err, fault.NotFound, "project")
	_, err = fx.List(fx.request(), branchRef("main"))
	faulttest.Check(t, err, fault.NotFound, "project")
}
