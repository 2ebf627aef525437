internal import Bytes
internal import Orchestration
internal import Vocabulary

/// Decodes and encodes every payload between nodes, for tests of recorded bytes.
///
/// The message types themselves are internal to this module.
package enum PeerPayloadProbe: String, CaseIterable, Sendable {
    case beat
    case beatReply
    case served
    case engage
    case engageAnswer
    case describe
    case describeAnswer
    case join
    case place
    case vBuckets
    case activate
    case reports
    case done
    case statistics
    case viewStatistics
    case document
    case documentOutcome
    case listing
    case keys
    case randomKey
    case leader
    case leaderAnswer
    case history
    case series
    case events
    case eventsAnswer
    case compact
    case compactViews
    case purge
    case epoch
    case epochAnswer
    case raft

    /// Decodes `bytes` and encodes the result again; nil if `bytes` cannot be decoded.
    package func rewrite(_ bytes: [UInt8]) -> [UInt8]? {
        switch self {
        case .beat: BeatMessage(message: bytes)?.encoded
        case .beatReply: LeaseReply(message: bytes)?.encoded
        case .served: ServedMessage(message: bytes)?.encoded
        case .engage: EngageMessage(message: bytes)?.encoded
        case .engageAnswer: EngageAnswer(message: bytes)?.encoded
        case .describe: DescribeMessage(message: bytes)?.encoded
        case .describeAnswer: DescribeAnswer(message: bytes)?.encoded
        case .join: JoinRequest(message: bytes)?.encoded
        case .place: PeerPlace(message: bytes)?.encoded
        case .vBuckets: VBucketsCall(message: bytes)?.encoded
        case .activate: ActivateCall(message: bytes)?.encoded
        case .reports: ReportsAnswer(message: bytes)?.encoded
        case .done: DoneAnswer(message: bytes)?.encoded
        case .statistics: NodeStatistics(message: bytes)?.encoded
        case .viewStatistics: ViewStatistics(message: bytes)?.encoded
        case .document: DocumentCall(message: bytes)?.encoded
        case .documentOutcome: DocumentOutcome(message: bytes)?.encoded
        case .listing: ListingCall(message: bytes)?.encoded
        case .keys: KeyListing(message: bytes)?.encoded
        case .randomKey: RandomKeyCall(message: bytes)?.encoded
        case .leader: LeaderRequest(message: bytes)?.encoded
        case .leaderAnswer: LeaderAnswer(message: bytes)?.encoded
        case .history: HistoryCall(message: bytes)?.encoded
        case .series: StatisticsSampler.Series(message: bytes)?.encoded
        case .events: EventsCall(message: bytes)?.encoded
        case .eventsAnswer: EventsAnswer(message: bytes)?.encoded
        case .compact: BucketOrder(message: bytes)?.encoded
        case .compactViews: ViewCompactionOrder(message: bytes)?.encoded
        case .purge: BucketOrder(message: bytes)?.encoded
        case .epoch: EpochCall(message: bytes)?.encoded
        case .epochAnswer: EpochAnswer(message: bytes)?.encoded
        case .raft: (try? RaftFrame(decoding: bytes, skipsRest: true))?.encoded
        }
    }
}
