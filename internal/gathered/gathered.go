// Package gathered reads sums from metrics that were gathered in this process, so that a figure which a metric holds
// already is counted at one place.
//
// It gathers nothing itself, and starts no goroutine.
package gathered

import dto "github.com/prometheus/client_model/go"

// Families are gathered metrics, of one node or of several.
type Families []*dto.MetricFamily

// Sum adds a counter up over all its labels; a missing metric counts as 0.
func (f Families) Sum(metric string) (sum float64) {
	f.each(metric, func(one *dto.Metric) { sum += one.GetCounter().GetValue() })
	return sum
}

// Histogram is how many observations a histogram holds, and their sum, over all its labels.
func (f Families) Histogram(metric string) (count uint64, sum float64) {
	f.each(metric, func(one *dto.Metric) {
		count += one.GetHistogram().GetSampleCount()
		sum += one.GetHistogram().GetSampleSum()
	})
	return count, sum
}

// Counters are the values of a counter by the value of a label, added up over the others.
func (f Families) Counters(metric, label string) map[string]float64 {
	values := make(map[string]float64)
	f.each(metric, func(one *dto.Metric) {
		if name, ok := valueOf(one, label); ok {
			values[name] += one.GetCounter().GetValue()
		}
	})
	return values
}

// Gauges joins the values of a gauge by the value of a label.
func (f Families) Gauges(metric, label string, join func(a, b float64) float64) map[string]float64 {
	values := make(map[string]float64)
	f.each(metric, func(one *dto.Metric) {
		if name, ok := valueOf(one, label); ok {
			values[name] = join(values[name], one.GetGauge().GetValue())
		}
	})
	return values
}

func valueOf(one *dto.Metric, label string) (string, bool) {
	for _, l := range one.GetLabel() {
		if l.GetName() == label {
			return l.GetValue(), true
		}
	}
	return "", false
}

// each calls do with each series of a metric.
func (f Families) each(metric string, do func(*dto.Metric)) {
	for _, family := range f {
		if family.GetName() != metric {
			continue
		}
		for _, one := range family.GetMetric() {
			do(one)
		}
	}
}
