import Testing

/// What `Date.parse` of map functions makes of the usual forms of dates, in a script process, whose time
/// zone is UTC.
///
/// Beyond ISO 8601 and its own output, the language leaves the forms to the engine: these are
/// JavaScriptCore's. Rows follow from them, so another engine or release that differs needs new indexes.
@Suite struct DateTests {
    /// 2020-01-02T00:00:00Z in milliseconds.
    private static let day = 1_577_923_200_000
    /// 03:04:05.
    private static let time = 11_045_000
    private static let hour = 3_600_000

    private static let dates: [(text: String, milliseconds: Int)] = [
        // ISO 8601. A date alone is in UTC; a time without a zone is local time, which is UTC here.
        ("2020", day - 24 * hour), ("2020-01", day - 24 * hour), ("2020-01-02", day),
        ("2020-01-02T03:04:05Z", day + time), ("2020-01-02T03:04:05.678Z", day + time + 678),
        ("2020-01-02T03:04Z", day + time - 5_000), ("2020-01-02T03:04:05", day + time),
        ("2020-01-02T03:04:05+02:00", day + time - 2 * hour),
        ("2020-01-02T03:04:05-05:30", day + time + 5 * hour + hour / 2),
        // RFC 2822.
        ("Thu, 02 Jan 2020 03:04:05 GMT", day + time),
        ("Thu, 02 Jan 2020 03:04:05 +0200", day + time - 2 * hour),
        ("Thu, 02 Jan 2020 03:04:05 EST", day + time + 5 * hour),
        ("02 Jan 2020 03:04:05", day + time), ("2 Jan 2020", day),
        // What the language prints.
        ("Thu Jan 02 2020 03:04:05 GMT+0000 (Coordinated Universal Time)", day + time),
        // Local time in the forms of many programs.
        ("2020/01/02", day), ("2020/01/02 03:04:05", day + time), ("01/02/2020", day),
        ("Jan 2, 2020", day), ("January 2, 2020 03:04:05", day + time),
    ]

    private static let invalid = [
        "", "no date", "tomorrow", "2020-13-01", "2020-01-32", "2020-01-02T25:00:00Z",
        "Thu, 02 Foo 2020 03:04:05 GMT",
    ]

    @Test func datesOfUsualFormsAreParsed() throws {
        let child = try ScriptChild()
        #expect(try child.define(1, "function (doc) { emit(null, Date.parse(doc)); }").isDefined)
        let answer = try child.map([1], Self.dates.map { "\"\($0.text)\"" })
        let expected = Self.dates.map { "null=\($0.milliseconds)" }
        for (date, (found, wanted)) in zip(Self.dates, zip(answer.pairs(), expected)) {
            #expect(found == wanted, "\(date.text)")
        }
        #expect(answer.pairs().count == expected.count)
    }

    @Test func invalidDateHasNeitherNumberNorArray() throws {
        let child = try ScriptChild()
        let source = "function (doc) { emit(isNaN(Date.parse(doc)), dateToArray(doc)); }"
        #expect(try child.define(1, source).isDefined)
        let pairs = try child.map([1], Self.invalid.map { "\"\($0)\"" }).pairs()
        #expect(pairs == Self.invalid.map { _ in "true=null" })
    }
}
