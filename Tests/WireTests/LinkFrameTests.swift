import Bytes
import Testing
import Wire

/// Encoding and decoding of the frames of a link.
@Suite struct LinkFrameTests {
    private typealias Sample = (kind: LinkFrame.Kind, stream: UInt64, payload: [UInt8])

    private static let samples: [Sample] = [
        (.open, 1, [7, 1, 2]),
        (.part, 2, [UInt8](repeating: 9, count: 300)),
        (.message, .max, [9]),
        (.message, 3, [1]),
        (.credit, 0x0102_0304_0506_0708, [0, 1, 0, 0]),
        (.end, 5, Array("it is shut down".utf8)),
        (.end, 5, []),
        (.ping, 0, []),
        (.pong, 0, []),
    ]

    private static func bytes(_ sample: Sample) -> [UInt8] {
        written { output in
            sample.payload.withView {
                LinkFrame.append(sample.kind, sample.stream, payload: $0, to: output)
            }
        }
    }

    /// A frame whose kind and length may be invalid; only its header.
    private static func header(_ length: UInt32, _ stream: UInt64, _ kind: UInt8) -> [UInt8] {
        written { output in
            output.append(bigEndian: length)
            output.append(bigEndian: stream)
            output.append(kind)
        }
    }

    private static func isInvalid(_ bytes: [UInt8]) -> Bool {
        bytes.withView { if case .invalid = LinkFrameDecoder.next(in: $0) { true } else { false } }
    }

    @Test func framesAreFoundForEveryCutOfTheStream() {
        let samples = LinkFrameTests.samples
        let stream = samples.flatMap(LinkFrameTests.bytes)
        for cut in 0...stream.count {
            var found = 0
            var rest = Array(stream[..<cut])
            for more in [[], Array(stream[cut...])] {
                rest += more
                rest.withView { view in
                    var offset = 0
                    while case .frame(let frame) = LinkFrameDecoder.next(
                        in: view.dropFirst(offset)
                    ) {
                        let sample = samples[found]
                        #expect(frame.kind == sample.kind && frame.stream == sample.stream)
                        #expect(frame.payload.bytes == sample.payload)
                        found += 1
                        offset += frame.byteCount
                    }
                    rest = view.dropFirst(offset).bytes
                }
            }
            #expect(found == samples.count && rest.isEmpty)
        }
    }

    @Test func incompleteFrameReportsTheBytesNeeded() {
        for sample in LinkFrameTests.samples {
            let frame = LinkFrameTests.bytes(sample)
            for count in 0..<frame.count {
                Array(frame[..<count]).withView { view in
                    guard case .incomplete(let needed) = LinkFrameDecoder.next(in: view) else {
                        Issue.record("\(count) bytes must be an incomplete frame")
                        return
                    }
                    #expect(needed == (count < LinkFrame.headerBytes ? 0 : frame.count))
                }
            }
        }
    }

    @Test func eachKindHasItsLengths() {
        let most = UInt32(LinkFrame.payloadBytesMax)
        let bounds: [LinkFrame.Kind: ClosedRange<UInt32>] = [
            .open: 1...most, .part: 1...most, .message: 1...most, .credit: 4...4,
            .end: 0...UInt32(LinkFrame.reasonBytesMax), .ping: 0...0, .pong: 0...0,
        ]
        for kind in LinkFrame.Kind.allCases {
            let range = bounds[kind] ?? 0...0
            let stream: UInt64 = kind == .ping || kind == .pong ? 0 : 1
            var lengths = [0, 1, 4, 5, 256, 257, most, most + 1, .max]
            lengths += [range.lowerBound, range.upperBound, range.upperBound + 1]
            for length in lengths {
                let header = LinkFrameTests.header(length, stream, kind.rawValue)
                #expect(
                    LinkFrameTests.isInvalid(header) != range.contains(length),
                    "\(kind) with \(length) bytes"
                )
            }
        }
    }

    /// Of any length: no byte of such a frame is waited for.
    @Test func unknownKindsAreInvalid() {
        for kind in [0] + (8...255) as [UInt8] {
            for length in [0, 1, UInt32.max] {
                #expect(LinkFrameTests.isInvalid(LinkFrameTests.header(length, 1, kind)))
            }
        }
    }

    @Test func onlyFramesOfTheLinkHaveStreamZero() {
        for sample in LinkFrameTests.samples {
            let other: UInt64 = sample.stream == 0 ? 1 : 0
            let header = LinkFrameTests.header(
                UInt32(sample.payload.count),
                other,
                sample.kind.rawValue
            )
            #expect(LinkFrameTests.isInvalid(header), "\(sample.kind)")
        }
    }

    /// Nodes of several releases exchange these bytes.
    @Test func recordedBytesStayTheSame() {
        let recorded: [(Sample, [UInt8])] = [
            ((.open, 1, [7, 42]), [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 1, 7, 42]),
            ((.part, 2, [3]), [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 2, 3]),
            ((.message, 258, [4, 5]), [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5]),
            ((.credit, 3, [0, 4, 0, 0]), [0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 3, 4, 0, 4, 0, 0]),
            ((.end, 4, [0x6e, 0x6f]), [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 4, 5, 0x6e, 0x6f]),
            ((.ping, 0, []), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6]),
            ((.pong, 0, []), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]),
        ]
        #expect(Set(recorded.map(\.0.kind)) == Set(LinkFrame.Kind.allCases))
        for (sample, bytes) in recorded { #expect(LinkFrameTests.bytes(sample) == bytes) }
    }

    @Test func frameWithLaterPayloadHasTheSameBytes() {
        for sample in LinkFrameTests.samples {
            let bytes = written { output in
                output.append([1, 2, 3])
                let start = LinkFrame.begin(sample.kind, sample.stream, to: output)
                output.append(sample.payload)
                let count = LinkFrame.finish(from: start, in: output)
                #expect(start == 3 && count == sample.payload.count)
            }
            #expect(bytes == [1, 2, 3] + LinkFrameTests.bytes(sample))
        }
    }

    /// Any bytes give an outcome.
    @Test func mutatedFramesNeverCrash() {
        var random = SeededRandom(seed: 6)
        for round in 0..<20_000 {
            var bytes = LinkFrameTests.bytes(LinkFrameTests.samples[round % 9])
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                bytes[place] = UInt8.random(in: 0...255, using: &random)
            }
            bytes.removeLast(Int.random(in: 0..<bytes.count, using: &random) / 4)
            bytes.withView { view in
                switch LinkFrameDecoder.next(in: view) {
                case .frame(let frame): #expect(frame.byteCount <= view.count)
                case .incomplete(let needed): #expect(needed == 0 || needed > view.count)
                case .invalid: break
                }
            }
        }
    }
}
