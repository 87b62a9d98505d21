package upgrade_test

import (
	"os"
	"testing"

	"github.com/gatewright/gatewright/local/released"
)

// The units that the customer has bought, and that it has spent with each version.
const (
	bought         = 12
	spentBefore    = 5
	spentAfter     = 3
	leftForTheWay  = bought - spentBefore - spentAfter
	moreThanBought = leftForTheWay + 1
)

// varUpgrade says which upgrades are tested: "last", from the last release and back, or "earlier", from all releases before it.
const varUpgrade = "GATEWRIGHT_TEST_UPGRADE"

// TestUpgradeFromTheLastReleaseAndBack has one data directory go through both versions, each of which is killed once
// while it writes.
func TestUpgradeFromTheLastReleaseAndBack(t *testing.T) {
	if os.Getenv(varUpgrade) != "last" {
		t.Skip("it builds two products: make test-upgrade")
	}
	commit, err := released.Commit(repository)
	if err != nil {
		t.Fatal(err)
	}
	old, next := builtFrom(t, commit), built(t, repository)
	w := newWorld(t)

	w.start(old)
	w.fill()
	w.serves("shop")
	w.spend(spentBefore)
	w.noteAudit()
	w.note()
	w.stop()
	w.start(old)
	w.killed("old")

	w.start(next)
	w.same()
	w.wrote("old")
	w.serves("shop")
	w.verifyAudit()
	w.spend(spentAfter)
	w.work("later")
	w.serves("shop", "later")
	w.noteAudit()
	w.note()
	w.stop()
	w.start(next)
	w.killed("next")

	w.start(old)
	w.same()
	w.wrote("old")
	w.wrote("next")
	w.serves("shop", "later")
	w.verifyAudit()
	if admitted := w.call(moreThanBought); admitted != leftForTheWay {
		t.Errorf("%d of %d requests are admitted, %d of what was bought are left", admitted, moreThanBought, leftForTheWay)
	}
	w.work("back")
	w.serves("shop", "later", "back")
	w.note()
	w.stop()

	w.start(next)
	w.same()
	w.serves("shop", "later", "back")
	w.verifyAudit()
	w.stop()
}

// TestUpgradeFromEarlierReleases starts this version over the data of each release before the last one. Nobody goes back that far.
func TestUpgradeFromEarlierReleases(t *testing.T) {
	if os.Getenv(varUpgrade) != "earlier" {
		t.Skip("it builds the product of each earlier release: make nightly")
	}
	commits, err := released.Commits(repository)
	if err != nil {
		t.Fatal(err)
	}
	if len(commits) == 1 {
		t.Skip("there is no release before the last one")
	}
	next := built(t, repository)
	for _, commit := range commits[1:] {
		t.Run(commit, func(t *testing.T) {
			old, w := builtFrom(t, commit), newWorld(t)
			w.start(old)
			w.fill()
			w.serves("shop")
			w.spend(spentBefore)
			w.noteAudit()
			w.note()
			w.stop()

			w.start(next)
			w.same()
			w.serves("shop")
			w.verifyAudit()
			w.work("later")
			w.serves("shop", "later")
			w.stop()
		})
	}
}

// builtFrom returns the product of a commit of this checkout.
func builtFrom(t *testing.T, commit string) string {
	t.Helper()
	tree := t.TempDir()
	if err := released.Source(t.Context(), repository, commit, tree); err != nil {
		t.Fatal(err)
	}
	return built(t, tree)
}
