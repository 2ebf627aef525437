import Bytes
import SubDocument
import Testing

@Suite struct CounterTests {
    private static let greatest = "9223372036854775807"
    private static let smallest = "-9223372036854775808"

    private func count(_ delta: String, _ number: String) -> Outcome {
        Edit(.counter, "n", delta).apply(to: "{\"n\":\(number)}")
    }

    @Test(arguments: [
        ("1", "9223372036854775806", greatest), ("-1", "-9223372036854775807", smallest),
        (greatest, "0", greatest), (smallest, "0", smallest), (smallest, greatest, "-1"),
        (greatest, smallest, "-1"), (greatest, "-99", "9223372036854775708"),
    ]) func counterCoversAllSignedIntegers(delta: String, number: String, sum: String) {
        #expect(count(delta, number) == .text("{\"n\":\(sum)}"))
    }

    @Test(arguments: [
        ("2", "9223372036854775806"), ("1", greatest), ("-2", "-9223372036854775807"),
        ("-1", smallest), (greatest, greatest), (smallest, smallest),
    ]) func overflowCannotBeInserted(delta: String, number: String) {
        #expect(count(delta, number) == .failure(.cannotInsert))
    }

    @Test(arguments: [
        "9223372036854775808", "-9223372036854775809", "18446744073709551616",
        "99999999999999999999999999999999999",
    ]) func largeExistingNumberIsOutOfRange(number: String) {
        #expect(count("1", number) == .failure(.numberOutOfRange))
    }

    @Test(arguments: ["3.14", "1e3", "1.0", "1E0", #""1""#, "true", "null", "[1]", "{}", "-0.0"])
    func valueThatIsNoIntegerIsAMismatch(number: String) {
        #expect(count("1", number) == .failure(.mismatch))
    }

    @Test(arguments: [
        "bad", "3.14", "-", "43f", "0", "-0", "01", "-01", "+1", " 1", "1 ", "1e3", #""1""#,
        "9223372036854775808", "-9223372036854775809", "00000000000000000000001",
    ]) func invalidDeltaIsRefused(delta: String) {
        #expect(count(delta, "1") == .failure(.invalidDelta))
    }

    @Test func missingCounterBeginsAtZero() {
        #expect(Edit(.counter, "a.n", "7").apply(to: #"{"a":{}}"#) == #"{"a":{"n":7}}"#)
        #expect(Edit(.counter, "a.n", "7").apply(to: "{}") == .failure(.notFound))
        #expect(Edit(.counter, "[0]", "7").apply(to: "[]") == .failure(.notFound))
        let inArray = Edit(.counter, "[0]", "7", makesParents: true)
        #expect(inArray.apply(to: "[]") == .failure(.notFound))
        #expect(Edit(.counter, "a", "7").apply(to: "[]") == .failure(.mismatch))
    }

    @Test func resultHasTheNumberAndItsPlace() {
        let document = Array(#"{"n": 10 }"#.utf8)
        _ = Edit(.counter, "n", "-11").apply(to: document) { result, document in
            #expect(result.number == -1)
            let written = result.written.map { String(decoding: document[$0], as: UTF8.self) }
            #expect(written == "-1")
        }
        _ = Edit(.counter, "m", "3").apply(to: document) { result, document in
            #expect(result.number == 3)
            let written = result.written.map { String(decoding: document[$0], as: UTF8.self) }
            #expect(written == "3")
        }
    }
}
