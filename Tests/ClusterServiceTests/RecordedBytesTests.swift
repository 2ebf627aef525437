import Bytes
import ClusterService
import Testing

/// Payloads between nodes as this release sends them, and as a later release may.
@Suite struct RecordedBytesTests {
    struct Recording: Sendable {
        let payload: PeerPayloadProbe
        /// As this release sends it; never changed from the first release on.
        let recorded: String
        /// The same with unknown fields at the end of each record.
        let later: String

        init(_ payload: PeerPayloadProbe, _ recorded: String, later: String) {
            self.payload = payload
            self.recorded = recorded
            self.later = later
        }
    }

    private static let group = "0000000000000009"
    private static let secret = String(repeating: "05", count: 32)
    private static let report = "07 01 09 08 06 \(group) 0a 05 01 00 0000000000000003 00 01 00"
    private static let counters = "1b" + String(repeating: "02", count: 27) + "021100"
    private static let machine = "00 05 00 02 01 02 03 04 05 06 01 64 00"
    private static let handover = "02 \(group) 01 0000000000000008 03 04 02 01 02 00 01 ff"
    private static let heartbeat = "01 06 0001 0002 05 04 11"

    private static let ports = "1f9b 2bca 46ab 2bc7 526c 1f9c 46ac"
    private static let document = "0164 01 05 09 01 02 03"

    static let recordings: [Recording] = [
        Recording(
            .beat,
            "01 \(group) 05 8001 01 05 02ac02 9601 01",
            later: "01 \(group) 05 8001 01 07 02ac02 9601 ffff 01 0700"
        ),
        Recording(
            .beatReply,
            "02 \(group) 05 01 03 04 02 01 02 00",
            later: "02 \(group) 05 01 03 04 02 01 02 00 ff"
        ),
        Recording(
            .served,
            "01 0d 01 026162 00000000000000ff 07",
            later: "01 0f 01 026162 00000000000000ff 07 eeee 01"
        ),
        Recording(.place, "01 03612e62 1f9b 020c0d", later: "01 03612e62 1f9b 020c0d ff"),
        Recording(
            .engage,
            "026363 \(group) 01 03 0161 01 07 01 0162 1f9b 010c 01 03746f6b",
            later: "026363 \(group) 01 03 0161 01 08 01 0162 1f9b 010c ff 01 03746f6b ee"
        ),
        Recording(.engageAnswer, "026e6f", later: "026e6f 00"),
        Recording(.describe, "020102", later: "020102 ff"),
        Recording(
            .describeAnswer,
            "01 00 020102 34 0175 \(ports) 8008 01 20 \(secret)",
            later: "01 00 020102 35 0175 \(ports) 8008 01 20 \(secret) ff 00"
        ),
        Recording(
            .join,
            "0161 0162 0163 34 0175 \(ports) 8008 01 20 \(secret)",
            later: "0161 0162 0163 36 0175 \(ports) 8008 01 20 \(secret) eeff 00"
        ),
        Recording(.vBuckets, "03 04 026162 01 02 07 09", later: "03 04 026162 01 03 07 09 ff 00"),
        Recording(
            .activate,
            "03 04 026162 02 03 070900 05 070901 0a0b",
            later: "03 04 026162 02 04 070900 ff 07 070901 0a0b eeee 00"
        ),
        Recording(.reports, "00 01 1c \(report)", later: "00 01 1e \(report) ffee 01"),
        Recording(.done, "00 01 02 0708", later: "00 01 03 0708 ff 00"),
        Recording(
            .statistics,
            "\(machine) 01 28 0162 00 1f \(counters) 04 01020304 07",
            later: "\(machine) 01 2b 0162 00 20 \(counters) ff 04 01020304 00 ee 07 dd"
        ),
        Recording(
            .document,
            "0162 016b 01 023432 00000003 00000004 01 02 \(group)",
            later: "0162 016b 01 023432 00000003 00000004 01 02 \(group) ff"
        ),
        Recording(.document, "0162 016b 02 \(group)", later: "0162 016b 02 \(group) ff"),
        Recording(
            .documentOutcome,
            "00 12 \(group) 02 00000003 00000004 01 023432",
            later: "00 13 \(group) 02 00000003 00000004 01 ff 023432 ee"
        ),
        Recording(
            .documentOutcome,
            "01 \(group) \(group) \(group)",
            later: "01 \(group) \(group) \(group) ff"
        ),
        Recording(.listing, "0162 01 0161 00 00 01 0a", later: "0162 01 0161 00 00 01 0a ff"),
        Recording(.keys, "00 02 0161 0162", later: "00 02 0161 0162 ff"),
        Recording(.leader, "00 02 01 02 04 726f6f74", later: "00 02 01 02 04 726f6f74 ff"),
        Recording(
            .leaderAnswer,
            "02 14 00 0162 01 02 01 0c 01 00 0405040302 0401000000 00",
            later: "02 17 00 0162 01 02 01 0e 01 00 0505040302ff 0401000000 ee 00 dd cc"
        ),
        Recording(.history, "0162 04686f7572", later: "0162 04686f7572 ff"),
        Recording(.events, "05 0a", later: "05 0a ff"),
        Recording(
            .eventsAnswer,
            "01 10 01 0a646976616e5f6e6f6465 0178 05 07",
            later: "01 11 01 0a646976616e5f6e6f6465 0178 05 07 ff ee"
        ),
        Recording(.compact, "026162", later: "026162 ff"),
        Recording(.epoch, "01 \(group)", later: "01 \(group) ff"),
        Recording(.epoch, "03 1a \(handover)", later: "03 1b \(handover) ff ee"),
        Recording(
            .epochAnswer,
            "00 0c \(group) 02 03 04 05",
            later: "00 0d \(group) 02 03 04 05 ff ee"
        ),
        Recording(.raft, "01 00 \(heartbeat)", later: "01 00 \(heartbeat) ff"),
        Recording(
            .raft,
            "01 01 07 02 09 09 \(heartbeat)",
            later: "01 01 07 02 09 0a \(heartbeat) ff ee"
        ),
        Recording(.raft, "01 02 07 01 02 aabb", later: "01 02 07 01 02 aabb ff"),
        Recording(.raft, "01 03 07 02", later: "01 03 07 02 ff"),
        Recording(.raft, "01 04 07", later: "01 04 07 ff"),
        Recording(.raft, "01 05 07 02 01aa 02bbcc", later: "01 05 07 02 01aa 02bbcc ff"),
        Recording(.raft, "01 06 07 01", later: "01 06 07 01 ff"),
        Recording(.randomKey, "0162", later: "0162 ff"),
        // A compaction, and the figures of a bucket with a design document whose index is being built.
        Recording(.compactViews, "026162 0164 01", later: "026162 0164 01 ff"),
        Recording(.viewStatistics, "00", later: "00 ff"),
        Recording(
            .viewStatistics,
            "01 11 0162 8002 8001 07 01 08 \(document)",
            later: "01 14 0162 8002 8001 07 01 0a \(document) ffee dd cc"
        ),
        // A purge, and the figures of a bucket whose documents are being compacted.
        Recording(.purge, "026162", later: "026162 ff"),
        Recording(
            .statistics,
            "\(machine) 01 2c 0162 00 1f \(counters) 04 01020304 01 05 8001 07",
            later: "\(machine) 01 2d 0162 00 1f \(counters) 04 01020304 01 05 8001 ff 07"
        ),
    ]

    @Test(arguments: recordings)
    func payloadOfAnyReleaseIsReadWithoutTheUnknownFields(_ recording: Recording) {
        let recorded = bytes(recording.recorded)
        let payload = recording.payload
        #expect(payload.rewrite(recorded) == recorded, "\(payload) as recorded")
        #expect(payload.rewrite(bytes(recording.later)) == recorded, "\(payload) of later")
    }

    @Test(arguments: recordings)
    func prefixOfPayloadIsRefused(_ recording: Recording) {
        let recorded = bytes(recording.recorded)
        for count in 0..<recorded.count {
            let read = recording.payload.rewrite(Array(recorded[..<count]))
            #expect(read == nil, "\(count) bytes of \(recording.payload)")
        }
    }

    @Test func everyPayloadExceptSeriesHasRecording() {
        let recorded = Set(Self.recordings.map(\.payload))
        #expect(Set(PeerPayloadProbe.allCases).subtracting(recorded) == [.series])
    }

    /// Samples have no length of their own: the series says how many statistics each has.
    @Test func statisticsThatALaterReleaseSamplesAreSkipped() {
        let count = SampledStatistic.allCases.count
        let sample = (0..<4 * count).map { UInt8($0 % 120) }
        let recorded: [UInt8] = [1, 2, UInt8(count), 1, 3] + sample
        #expect(PeerPayloadProbe.series.rewrite(recorded) == recorded)
        let later: [UInt8] = [1, 2, UInt8(count + 1), 1, 3] + sample + [9, 9, 9, 9, 7]
        #expect(PeerPayloadProbe.series.rewrite(later) == recorded)
        // Its first sample would be older than 1970.
        let endless: [UInt8] = [2] + recorded.dropFirst()
        #expect(PeerPayloadProbe.series.rewrite(endless) == nil)
    }

    /// 1.001 has no exact `Double`, and 2⁶⁴ − 1 is more than any percentage.
    @Test(arguments: [("e907", "e907"), ("ffffffffffffffffff01", "80809aa6eaafe301")])
    func percentageKeepsItsThousandthsAndIsBounded(_ sent: String, _ kept: String) {
        let rest = "02 01 02 03 04 05 06 01 64 00 00 07"
        let written = PeerPayloadProbe.statistics.rewrite(bytes("00 05 \(sent) \(rest)"))
        #expect(written == bytes("00 05 \(kept) \(rest)"))
    }

    /// A record that claims more bytes than its frame has.
    @Test func lengthBeyondTheFrameIsRefused() {
        #expect(PeerPayloadProbe.vBuckets.rewrite(bytes("03 04 026162 01 03 07 09")) == nil)
        #expect(PeerPayloadProbe.served.rewrite(bytes("01 ffffffffffffffffff01 01")) == nil)
        #expect(PeerPayloadProbe.raft.rewrite(bytes("01 05 07 01 03 aabb")) == nil)
    }

    @Test func randomBytesAreRefusedOrReencodeEqual() {
        var random = SeededRandom(seed: 11)
        for payload in PeerPayloadProbe.allCases {
            for _ in 0..<2_000 {
                let count = Int.random(in: 0...48, using: &random)
                let bytes = (0..<count).map { _ in UInt8.random(in: 0...9, using: &random) }
                guard let read = payload.rewrite(bytes) else { continue }
                #expect(payload.rewrite(read) == read, "\(payload) of \(bytes)")
            }
        }
    }

    private func bytes(_ hex: String) -> [UInt8] {
        let digits = hex.filter { $0 != " " }.compactMap { $0.hexDigitValue.map(UInt8.init) }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }
}
