import Bytes
import Foundation
import Testing
import Vocabulary
import Wire

@Suite struct ResponseTests {
    let replyTo = ReplyTo(.get, opaque: 0x0102_0304)

    @Test func responseWithoutBodyIsABareHeader() {
        let bytes = written { ResponseEncoder.append(.keyNotFound, to: $0, replyTo: replyTo) }
        #expect(bytes == hex("81 00 0000 00 00 0001 00000000 01020304 0000000000000000"))
        let traced = written {
            ResponseEncoder.append(
                .success,
                to: $0,
                replyTo: replyTo,
                cas: CAS(5),
                duration: ServerDuration(microseconds: 1_000)
            )
        }
        // 2000 ^ (1 / 1.74) = 78.9
        #expect(
            traced
                == hex("18 00 03 00 00 00 0000 00000003 01020304 0000000000000005 02 004f")
        )
    }

    @Test func documentResponseHasFlagsThenValue() {
        let value = Array(#"{"a":1}"#.utf8)
        let bytes = value.withView { value in
            written {
                ResponseEncoder.appendDocument(
                    to: $0,
                    replyTo: replyTo,
                    datatype: .json,
                    cas: CAS(0x1122_3344_5566_7788),
                    flags: 0x0200_0006,
                    value: value
                )
            }
        }
        let header = hex("81 00 0000 04 01 0000 0000000b 01020304 1122334455667788")
        #expect(bytes == header + hex("02000006") + value)
    }

    @Test func mutationTokenFollowsTheServerDuration() {
        let bytes = written {
            ResponseEncoder.appendMutation(
                to: $0,
                replyTo: ReplyTo(.set, opaque: 9),
                cas: CAS(1),
                uuid: VBucketUUID(0xaabb),
                seqno: Seqno(0x1234),
                duration: ServerDuration(microseconds: 0)
            )
        }
        let header = hex("18 01 03 00 10 00 0000 00000013 00000009 0000000000000001")
        #expect(bytes == header + hex("02 0001 000000000000aabb 0000000000001234"))
    }

    @Test func encodedResponseDecodesToTheSameResponse() throws {
        for duration in [nil, ServerDuration(microseconds: 77)] {
            let bytes = hex("0001 0203").withView { extras in
                Array("key".utf8).withView { key in
                    Array("value".utf8).withView { value in
                        written {
                            ResponseEncoder.append(
                                .rangeScanMore,
                                to: $0,
                                replyTo: ReplyTo(opcodeByte: 0xee, opaque: 3),
                                datatype: [.json, .xattr],
                                cas: CAS(4),
                                extras: extras,
                                key: key,
                                value: value,
                                duration: duration
                            )
                        }
                    }
                }
            }
            bytes.withView { view in
                guard case .frame(let frame) = FrameDecoder().next(in: view) else {
                    Issue.record("the encoded response was rejected")
                    return
                }
                #expect(frame.byteCount == bytes.count)
                #expect(!frame.header.isRequest)
                #expect(frame.header.status == .rangeScanMore)
                #expect(frame.header.opcodeByte == 0xee && frame.opcode == nil)
                #expect(frame.datatype == [.json, .xattr])
                #expect(frame.cas == CAS(4) && frame.opaque == 3)
                #expect(frame.framing.count == (duration == nil ? 0 : 3))
                #expect(frame.extras.bytes == hex("00010203"))
                #expect(frame.key.text == "key" && frame.value.text == "value")
            }
        }
    }

    @Test func clusterMapNotificationIsAServerRequest() {
        let bytes = Array("demo".utf8).withView { bucket in
            Array("{}".utf8).withView { config in
                written {
                    ResponseEncoder.appendClusterMapChange(
                        to: $0,
                        version: (1, 258),
                        bucket: bucket,
                        config: config,
                        datatype: .json
                    )
                }
            }
        }
        let header = hex("82 01 0004 10 01 0000 00000016 00000000 0000000000000000")
        #expect(
            bytes == header + hex("0000000000000001 0000000000000102") + Array("demo{}".utf8)
        )
        let brief = written {
            ResponseEncoder.appendClusterMapChange(
                to: $0,
                version: (1, 2),
                bucket: .empty,
                config: .empty,
                datatype: []
            )
        }
        #expect(brief.prefix(8) == hex("82 01 0000 10 00 0000")[...])
    }

    @Test func encodedRequestHasTheProtocolsLayout() {
        let bytes = hex("50").withView { framing in
            hex("0000000000000000").withView { extras in
                Array("k".utf8).withView { key in
                    written {
                        RequestEncoder.append(
                            .set,
                            to: $0,
                            vBucket: VBucketID(1_023),
                            opaque: 6,
                            cas: CAS(7),
                            datatype: .json,
                            framing: framing,
                            extras: extras,
                            key: key,
                            value: key
                        )
                    }
                }
            }
        }
        let header = hex("08 01 01 01 08 01 03ff 0000000b 00000006 0000000000000007")
        #expect(bytes == header + hex("50 0000000000000000 6b 6b"))
        let noop = written { RequestEncoder.append(.noop, to: $0) }
        #expect(noop == hex("80 0a 0000 00 00 0000 00000000 00000000 0000000000000000"))
    }
}
