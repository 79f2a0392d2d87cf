//go:build linux

package main

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The chart has no background of its own. Its colours are of middle brightness, so that they stand out from white and
// from the dark of a page alike; a test holds them to that.
const ink = "#767d85" // text and rules

// hues are the algorithms' colours, in their order.
var hues = []string{"#d1495b", "#c46a1e", "#9a6dd7", "#2b9348", "#2f7fe0", "#178f9c"}

// Places and sizes in px; what the scales show.
const (
	chartWidth  = 920
	margin      = 16
	panelWidth  = 430 // of two beside each other
	labelWidth  = 186 // of it the algorithms' names, left of the bars
	valueWidth  = 30  // figures, right of them
	rowHeight   = 20
	panelHeight = 180
	panelTop    = 50
	panelHead   = 30                                     // from a panel's top to its first bar
	lineTop     = panelTop + 2*panelHeight + 2*rowHeight // where the timeline begins
	lineHeight  = 230
	lineLeft    = margin + 40
	lineWidth   = 630
	chartHeight = lineTop + lineHeight + 50
	nameApart   = 16 // between the names at the lines' ends

	scaleEnd  = 2.2 * limitCalls // calls at the end of every scale
	lineFrom  = -10              // s from the end of an aligned window
	lineTo    = 54               // just before the first calls are a window old
	lineTicks = 10               // s
)

// A drawing is an SVG file being written.
type drawing struct{ bytes.Buffer }

func (d *drawing) text(x, y float64, anchor, colour, style, text string) {
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s"%s>`, x, y, anchor, colour, style)
	xml.EscapeText(d, []byte(text))
	d.WriteString("</text>\n")
}

func (d *drawing) rect(x, y, width, height float64, colour string) {
	fmt.Fprintf(d, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, width, height, colour)
}

func (d *drawing) line(x1, y1, x2, y2 float64, colour, style string) {
	fmt.Fprintf(d, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"%s/>`+"\n", x1, y1, x2, y2, colour, style)
}

const (
	bold   = ` font-weight="bold"`
	dashed = ` stroke-dasharray="4 3"`
)

// chart draws what was replayed: bars of the most admitted in any window, and the greedy caller's first minute.
func (c *comparison) chart() []byte {
	d := &drawing{}
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="12" role="img">`+"\n",
		chartWidth, chartHeight, chartWidth, chartHeight)
	heading := fmt.Sprintf("Calls admitted at worst in any %d s under a limit of %d", limitWindow/1000, limitCalls)
	d.WriteString("<title>")
	xml.EscapeText(d, []byte(heading))
	d.WriteString("</title>\n")
	d.text(margin, 24, "start", ink, bold+` font-size="16"`, heading)
	for i, t := range c.traffics {
		left := margin + i%2*(chartWidth-2*margin-panelWidth)
		c.drawBars(d, i, float64(left), float64(panelTop+i/2*panelHeight), t.name)
	}
	c.drawTimeline(d)
	d.WriteString("</svg>\n")
	return d.Bytes()
}

// drawBars draws a panel: the algorithms under one traffic.
func (c *comparison) drawBars(d *drawing, traffic int, left, top float64, name string) {
	across := func(calls float64) float64 {
		return left + labelWidth + calls/scaleEnd*(panelWidth-labelWidth-valueWidth)
	}
	bottom := top + panelHead + float64(len(algorithms())*rowHeight)
	d.text(left, top+12, "start", ink, bold, name)
	for n, label := range []string{"limit", "2× limit"} {
		x := across(float64(n+1) * limitCalls)
		d.text(x, top+12, "middle", ink, "", label)
		d.line(x, top+18, x, bottom, ink, dashed)
	}
	for j, a := range algorithms() {
		y := top + panelHead + float64(j*rowHeight)
		worst := c.replayed[traffic][j].worst
		d.text(left+labelWidth-8, y+11, "end", ink, "", a.title)
		d.rect(across(0), y, across(float64(worst))-across(0), rowHeight-6, hues[j])
		d.text(left+panelWidth, y+11, "end", ink, bold, strconv.Itoa(worst))
	}
}

// drawTimeline draws, for the greedy caller, what each algorithm admitted in the window up to each second.
func (c *comparison) drawTimeline(d *drawing) {
	across := func(s int) float64 { return lineLeft + float64(s-lineFrom)/(lineTo-lineFrom)*lineWidth }
	up := func(calls int) float64 { return lineTop + lineHeight*(1-float64(calls)/scaleEnd) }
	d.text(margin, lineTop-12, "start", ink, bold, fmt.Sprintf("The greedy caller: admitted in the last %d s", limitWindow/1000))
	for n := 0; n <= 2*limitCalls; n += limitCalls {
		d.text(lineLeft-6, up(n)+4, "end", ink, "", strconv.Itoa(n))
		d.line(lineLeft, up(n), lineLeft+lineWidth, up(n), ink, dashed)
	}
	for s := lineFrom; s <= lineTo; s += lineTicks {
		d.text(across(s), up(0)+16, "middle", ink, "", fmt.Sprintf("%d s", s))
	}
	d.line(across(0), lineTop, across(0), up(0), ink, dashed)
	d.text(across(0), up(0)+32, "middle", ink, "", "an aligned window ends")

	greedy := slices.IndexFunc(c.traffics, func(t traffic) bool { return t.name == greedyCaller })
	edge := c.traffics[greedy].at[0] + greedyLead
	last := make([]int, len(algorithms()))
	for j := range last {
		var points strings.Builder
		for s := lineFrom; s <= lineTo; s++ {
			last[j] = within(c.replayed[greedy][j].granted, edge+int64(s)*1000, limitWindow)
			fmt.Fprintf(&points, "%.1f,%.1f ", across(s), up(last[j]))
		}
		style := ""
		if j == exactly {
			style = ` stroke-dasharray="8 6"` // so that a line under it is seen
		}
		fmt.Fprintf(d, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2.5"%s/>`+"\n", points.String(), hues[j], style)
	}
	drawNames(d, last, up)
}

// drawNames writes each algorithm's name at the end of its line, one below the other where they would overlap.
func drawNames(d *drawing, last []int, up func(calls int) float64) {
	order := make([]int, len(last))
	for j := range order {
		order[j] = j
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(last[b], last[a]) })
	y := 0.0
	for _, j := range order {
		y = max(up(last[j])+4, y+nameApart)
		d.text(lineLeft+lineWidth+8, y, "start", hues[j], bold, fmt.Sprintf("%d %s", last[j], algorithms()[j].title))
	}
}
