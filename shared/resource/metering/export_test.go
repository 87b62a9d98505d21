package metering

// MaxCustomers is the maximum number of customers in a Directory's cache.
const MaxCustomers = maxCustomers

// MaxConsidered is the maximum number of a customer's subscriptions that are read.
const MaxConsidered = maxCustomerSubscriptions

// CachedCustomers returns the number of cached customers.
func (d *Directory) CachedCustomers() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.customers)
}
