package variables_test

import (
	"fmt"
	"testing"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/fault/faulttest"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/variables"
)

func TestListHasAllOfTheBranchByTheirNamesAndNoSecret(t *testing.T) {
	w := newWorld(t)
	w.create("main", variables.NewVariable{Name: "B", IsSecret: true, Value: "s3cret"})
	w.create("main", variables.NewVariable{Name: "A", Value: "1"})
	w.create("other", variables.NewVariable{Name: "C", Value: "2"})
	got, err := w.List(w.request(), at("main"))
	want := []variables.Variable{
		{Name: "A", Branch: "main", Value: "1", CreatedOn: w.now, UpdatedOn: w.now},
		{Name: "B", Branch: "main", IsSecret: true, CreatedOn: w.now, UpdatedOn: w.now},
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("listed %+v, %v", got, err)
	}
	for _, v := range want {
		if one, err := w.Read(w.request(), at("main"), v.Name); err != nil || one != v {
			t.Errorf("read %+v, %v", one, err)
		}
	}
}

func TestDeletedVariableIsGoneAndItsNameAndPlaceAreFree(t *testing.T) {
	w := newWorld(t)
	for i := range variables.MaxVariables {
		w.create("main", variables.NewVariable{Name: fmt.Sprint("V_", i), Value: "1"})
	}
	for range 3 { // what is deleted counts once
		if err := w.Delete(w.request(), at("main"), "V_0"); err != nil {
			t.Fatal(err)
		}
		faulttest.Want(t, w.Delete(w.request(), at("main"), "V_0"), fault.NotFound, "variable")
		w.create("main", variables.NewVariable{Name: "V_0", Value: "2"})
		_, err := w.Create(w.request(), at("main"), variables.NewVariable{Name: "ONE_MORE"})
		faulttest.Want(t, err, fault.Invalid, "100 variables")
	}
	if got := w.resolve("main"); got["V_0"] != "2" || len(got) != variables.MaxVariables {
		t.Errorf("resolved %v", got)
	}
}

// TestProjectThatIsBeingDeletedTakesNoVariable: its deletion has read what there is.
func TestProjectThatIsBeingDeletedTakesNoVariable(t *testing.T) {
	w := newWorld(t)
	if err := w.table.Commit(t.Context(), store.Put(store.ProjectKey(accountID, project), map[string]any{"deletedOn": w.now})); err != nil {
		t.Fatal(err)
	}
	_, err := w.Create(w.request(), at("main"), variables.NewVariable{Name: "A"})
	faulttest.Want(t, err, fault.NotFound, "project")
	_, err = w.List(w.request(), at("main"))
	faulttest.Want(t, err, fault.NotFound, "project")
}
