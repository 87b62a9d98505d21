package upgrade_test

import (
	"os"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/released"
)

// The number of units that the customer has bought, and the numbers that it spends with each version.
const (
	boughtUnits        = 12
	spentBefore        = 5
	spentAfter         = 3
	remainingForReturn = boughtUnits - spentBefore - spentAfter
	moreThanRemaining  = remainingForReturn + 1
)

// varUpgrade selects the upgrades to test: "last" for the last release and back, or "earlier" for all releases before it.
const varUpgrade = "GATEWRIGHT_TEST_UPGRADE"

// TestUpgradeFromTheLastReleaseAndBack checks that the last release and this version can alternate with one data directory. Each version is
// killed once while it writes.
func TestUpgradeFromTheLastReleaseAndBack(t *testing.T) {
	if os.Getenv(varUpgrade) != "last" {
		t.Skip("this test builds two products: make test-upgrade")
	}
	commit, err := released.Commit(repository)
	if err != nil {
		t.Fatal(err)
	}
	old, next := builtFrom(t, commit), buildProduct(t, repository)
	fx := newFixture(t)

	fx.start(old)
	fx.fill()
	fx.checkServes("shop")
	fx.checkSpend(spentBefore)
	fx.recordAudit()
	fx.recordResponses()
	fx.stop()
	fx.start(old)
	fx.killDuringWrites("old")

	fx.start(next)
	fx.compareResponses()
	fx.checkWrites("old")
	fx.checkServes("shop")
	fx.verifyAudit()
	fx.checkSpend(spentAfter)
	fx.work("later")
	fx.checkServes("shop", "later")
	fx.recordAudit()
	fx.recordResponses()
	fx.stop()
	fx.start(next)
	fx.killDuringWrites("next")

	fx.start(old)
	fx.compareResponses()
	fx.checkWrites("old")
	fx.checkWrites("next")
	fx.checkServes("shop", "later")
	fx.verifyAudit()
	if admitted := fx.callTimes(moreThanRemaining); admitted != remainingForReturn {
		t.Errorf("%d of %d requests were admitted, want the %d that remained", admitted, moreThanRemaining,
			remainingForReturn)
	}
	fx.work("back")
	fx.checkServes("shop", "later", "back")
	fx.recordResponses()
	fx.stop()

	fx.start(next)
	fx.compareResponses()
	fx.checkServes("shop", "later", "back")
	fx.verifyAudit()
	fx.stop()
}

// TestUpgradeFromEarlierReleases starts this version with the data of each release before the last one. Downgrades to them are not
// supported.
func TestUpgradeFromEarlierReleases(t *testing.T) {
	if os.Getenv(varUpgrade) != "earlier" {
		t.Skip("this test builds the product of each earlier release: make nightly")
	}
	commits, err := released.Commits(repository)
	if err != nil {
		t.Fatal(err)
	}
	if len(commits) == 1 {
		t.Skip("there is no release before the last one")
	}
	next := buildProduct(t, repository)
	for _, commit := range commits[1:] {
		t.Run(commit, func(t *testing.T) {
			old, fx := builtFrom(t, commit), newFixture(t)
			fx.start(old)
			fx.fill()
			fx.checkServes("shop")
			fx.checkSpend(spentBefore)
			fx.recordAudit()
			fx.recordResponses()
			fx.stop()

			fx.start(next)
			fx.compareResponses()
			fx.checkServes("shop")
			fx.verifyAudit()
			fx.work("later")
			fx.checkServes("shop", "later")
			fx.stop()
		})
	}
}

// builtFrom builds the product from a commit of this checkout, and returns the path of the binary.
func builtFrom(t *testing.T, commit string) string {
	t.Helper()
	tree := t.TempDir()
	if err := released.WriteSource(t.Context(), repository, commit, tree); err != nil {
		t.Fatal(err)
	}
	return buildProduct(t, tree)
}
