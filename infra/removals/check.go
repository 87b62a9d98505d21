package removals

import "fmt"

// CheckRegionKey is the key, in the metadata of an installation's template, of the region of its synthetic check.
const CheckRegionKey = "gatewright:check-region"

// APIAddress is the output of an installation with the address of its
// management API. The stack of the check has a parameter of the same name.
const APIAddress = "ApiAddress"

// CheckStackName returns the name of the stack of a stage's synthetic check.
func CheckStackName(stage string) string { return "gatewright-" + stage + "-check" }

// CheckRegion returns the region of the synthetic check of an installation, or "" for an installation without a check.
func (s Stack) CheckRegion() string {
	region, _ := s.Templates[""].Metadata[CheckRegionKey].(string)
	return region
}

// checkRemovals returns the removal of the synthetic check, if after has no check or has it in another region.
func checkRemovals(before, after Stack) []Removal {
	region := before.CheckRegion()
	if region == "" || region == after.CheckRegion() {
		return nil
	}
	return []Removal{{Name: "checkRegion", Loss: fmt.Sprintf("the synthetic check in %s with its alarms, its key "+
		"and its topic", region)}}
}
