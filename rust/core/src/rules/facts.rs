//! What the rules must know and the messages do not say.

/// Facts of one request; `ullage/_reference/rules.py` says what each means.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "described once, in the twin")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, each given by name"
)]
pub struct Facts {
    pub prefill_ok: bool,
    pub mid_system_ok: bool,
    pub manual_thinking: bool,
    pub image_limit: u64,
    pub image_mb: u64,
    pub page_limit: u64,
    pub pdfs_count: bool,
    pub window: u64,
    pub max_output: u64,
    pub max_tokens: u64,
    pub output_in_window: bool,
    pub fixed_tokens: u64,
    pub body_bytes: u64,
    pub body_limit: u64,
    pub tools: Option<Vec<Vec<u8>>>,
    pub tools_required: bool,
    pub alternation: bool,
    pub markers: Vec<Vec<u8>>,
    pub auto_cache: Vec<u8>,
    pub version: u64,
    pub tool_changes: bool,
    pub sampling: bool,
    pub resume: Vec<u8>,
    pub compact_beta: Option<bool>,
    pub compact_edit: bool,
    pub thinking: bool,
    pub reasoning_forbidden: bool,
    pub strict: bool,
    pub skip: Vec<Vec<u8>>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            prefill_ok: false,
            mid_system_ok: true,
            manual_thinking: false,
            image_limit: 100,
            image_mb: 10,
            page_limit: 100,
            pdfs_count: false,
            window: 0,
            max_output: 0,
            max_tokens: 0,
            output_in_window: false,
            fixed_tokens: 0,
            body_bytes: 0,
            // The documented limit is 32 MB at the edge; headers and re-encoding need some room.
            body_limit: 30_000_000,
            tools: None,
            tools_required: false,
            alternation: false,
            markers: Vec::new(),
            auto_cache: Vec::new(),
            version: 20_261_021,
            tool_changes: false,
            sampling: false,
            resume: Vec::new(),
            compact_beta: None,
            compact_edit: false,
            thinking: false,
            reasoning_forbidden: false,
            strict: false,
            skip: Vec::new(),
        }
    }
}

/// One fact by its name, for a binding that is given a mapping.
#[derive(Debug)]
pub enum Fact<'a> {
    /// True or false.
    Bool(&'a mut bool),
    /// True, false or unknown.
    MaybeBool(&'a mut Option<bool>),
    /// A whole number, 0 or more, below 2^63.
    Whole(&'a mut u64),
    /// A string, as the ledger's strings are encoded.
    Text(&'a mut Vec<u8>),
    /// A list of strings.
    Texts(&'a mut Vec<Vec<u8>>),
    /// A list of strings, or unknown.
    MaybeTexts(&'a mut Option<Vec<Vec<u8>>>),
}

impl Facts {
    /// The fact of that name, `None` if there is none.
    pub fn field(&mut self, name: &str) -> Option<Fact<'_>> {
        Some(match name {
            "prefill_ok" => Fact::Bool(&mut self.prefill_ok),
            "mid_system_ok" => Fact::Bool(&mut self.mid_system_ok),
            "manual_thinking" => Fact::Bool(&mut self.manual_thinking),
            "image_limit" => Fact::Whole(&mut self.image_limit),
            "image_mb" => Fact::Whole(&mut self.image_mb),
            "page_limit" => Fact::Whole(&mut self.page_limit),
            "pdfs_count" => Fact::Bool(&mut self.pdfs_count),
            "window" => Fact::Whole(&mut self.window),
            "max_output" => Fact::Whole(&mut self.max_output),
            "max_tokens" => Fact::Whole(&mut self.max_tokens),
            "output_in_window" => Fact::Bool(&mut self.output_in_window),
            "fixed_tokens" => Fact::Whole(&mut self.fixed_tokens),
            "body_bytes" => Fact::Whole(&mut self.body_bytes),
            "body_limit" => Fact::Whole(&mut self.body_limit),
            "tools" => Fact::MaybeTexts(&mut self.tools),
            "tools_required" => Fact::Bool(&mut self.tools_required),
            "alternation" => Fact::Bool(&mut self.alternation),
            "markers" => Fact::Texts(&mut self.markers),
            "auto_cache" => Fact::Text(&mut self.auto_cache),
            "version" => Fact::Whole(&mut self.version),
            "tool_changes" => Fact::Bool(&mut self.tool_changes),
            "sampling" => Fact::Bool(&mut self.sampling),
            "resume" => Fact::Text(&mut self.resume),
            "compact_beta" => Fact::MaybeBool(&mut self.compact_beta),
            "compact_edit" => Fact::Bool(&mut self.compact_edit),
            "thinking" => Fact::Bool(&mut self.thinking),
            "reasoning_forbidden" => Fact::Bool(&mut self.reasoning_forbidden),
            "strict" => Fact::Bool(&mut self.strict),
            "skip" => Fact::Texts(&mut self.skip),
            _ => return None,
        })
    }

    /// Whether a tool of that name is known to be in the request.
    pub(crate) fn has_tool(&self, name: &[u8]) -> bool {
        self.tools
            .as_ref()
            .is_some_and(|tools| tools.iter().any(|tool| tool == name))
    }
}
