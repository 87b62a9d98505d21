package removals

import "fmt"

// CheckRegionKey is the name, in the metadata of an installation's template, of the region that has its synthetic check.
const CheckRegionKey = "gatewright:check-region"

// APIAddress is the output of an installation with the address of its management API, and the parameter with it of the stack of the check.
const APIAddress = "ApiAddress"

// CheckStack returns the name of the stack of a stage's synthetic check.
func CheckStack(stage string) string { return "gatewright-" + stage + "-check" }

// CheckRegion returns the region that has the synthetic check of an installation, "" for an installation without one.
func (s Stack) CheckRegion() string {
	region, _ := s.Templates[""].Metadata[CheckRegionKey].(string)
	return region
}

// unchecked returns the removal of the synthetic check, if the installation would have none any more or have it in another region.
func unchecked(before, after Stack) []Removal {
	region := before.CheckRegion()
	if region == "" || region == after.CheckRegion() {
		return nil
	}
	return []Removal{{Name: "checkRegion", Lost: fmt.Sprintf("the synthetic check in %s with its alarms, its key and its topic", region)}}
}
